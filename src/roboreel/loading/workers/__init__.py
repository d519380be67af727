"""Processes that read batches into memory which the training process shares."""
