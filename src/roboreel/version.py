"""The version, where every room can import it from."""

__all__ = ["__version__"]

__version__ = "0.1.0"
