"""Results of commands as types: what ``--format json`` prints and the run file keeps.

Each command's result is one frozen type in a file of its own; its published JSON schema,
``docs/reference/result-COMMAND.schema.json``, is made from the type by ``docs/generate.py``.
"""

from pgdyno.results._published import schemas
from pgdyno.results._stored import Result, load, store

__all__ = ["Result", "load", "schemas", "store"]
