"""What a process holds in memory, and what it waits for on the disk."""
