"""The signatures, one file each. ``diagnose/_signature.py`` describes what a file must define."""
