"""``python -m pgdyno`` is the ``pgdyno`` command."""

from pgdyno.cli import main

main()
