"""One file per fault; see ``pgdyno.drill.fault``."""
