"""The checks of a database after a fault; each is a file with a ``CheckRule``."""
