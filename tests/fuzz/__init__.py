"""Hostile bytes for every parser, and hostile datasets: ``python -m tests.fuzz``."""
