"""A mapped ring of frames that one process writes and many read."""
