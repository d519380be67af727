"""Bytes of files, read or mapped by file and span."""
