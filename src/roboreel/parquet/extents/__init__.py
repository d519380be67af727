"""Byte strings, such as pictures, read from where they lie inside Parquet files."""
