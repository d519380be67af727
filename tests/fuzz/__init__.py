"""Hostile bytes for every parser: ``python -m tests.fuzz``."""
