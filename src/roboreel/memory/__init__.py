"""What the process holds in memory, and its limit."""
