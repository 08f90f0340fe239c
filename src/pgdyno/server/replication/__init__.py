"""Standbys and WAL receivers of a server that pgdyno started."""
