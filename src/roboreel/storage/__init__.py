"""Tables on disk as arrays."""
