"""The signatures, one file each. ``diagnose/_signature.py`` says what a file must hold."""
