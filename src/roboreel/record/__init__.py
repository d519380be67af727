"""Writing: recorders and replay buffers."""
