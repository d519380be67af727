"""How a dataset lies on disk, as a Manifest."""
