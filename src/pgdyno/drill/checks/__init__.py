"""The checks of a database after a fault, one file each, with its ``CHECK``."""
