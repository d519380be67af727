"""Several files of a folder change at once, or not at all."""
