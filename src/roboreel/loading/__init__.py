"""Batches of a dataset or a mixture, in order and ahead of time. Knows no framework."""
