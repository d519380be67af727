"""The version, where every room can import it from."""

__version__ = "0.1.0"
