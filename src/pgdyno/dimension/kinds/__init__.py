"""The dimensions, one file each, found by ``dimensions()``."""
