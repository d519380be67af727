"""Reading: datasets, views and samples."""
