"""Tables on disk as arrays, and back."""
