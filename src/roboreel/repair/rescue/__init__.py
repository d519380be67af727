"""Parquet files whose footer was never written, read by their pages and completed."""
