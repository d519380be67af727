"""Which samples, in which order, for which rank: arithmetic only."""
