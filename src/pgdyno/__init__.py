"""pgdyno: a dynamometer for PostgreSQL under write load.

The package is a house of rooms through which data flows one way; ARCHITECTURE.md draws it. Nothing
heavy is imported here, so that ``pgdyno --help`` answers at once.
"""
