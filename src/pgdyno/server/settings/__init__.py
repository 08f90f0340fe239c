"""Changing the settings of a running server, and restoring them whatever happens."""
