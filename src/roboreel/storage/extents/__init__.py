"""Where pictures lie inside Parquet files, and how they are read there."""
