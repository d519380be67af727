"""Bytes of files, read or mapped by file and span; and the one memory budget of a process."""
