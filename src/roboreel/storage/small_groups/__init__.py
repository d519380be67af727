"""Columns of thousands of small row groups, decoded side by side."""
