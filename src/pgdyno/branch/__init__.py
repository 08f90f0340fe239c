"""Branches: variants of a load, each measured from the same saved state of a server."""
