"""Snapshots: servers that were loaded or aged, kept under a name for others to start from."""
