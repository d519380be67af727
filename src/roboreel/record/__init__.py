"""Writing: an episode is on the disk entirely, or not at all."""
