"""Servers that pgdyno starts: binaries, data directory, processes, removal."""
