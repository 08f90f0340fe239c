"""Sections of reports that one command has alone, a file each with a ``VIEW``."""
