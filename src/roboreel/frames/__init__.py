"""The one reader of data files: rows and episodes as arrays and clips."""
