"""Remote files as local ones: what was fetched is kept in blocks, within a limit of bytes."""
