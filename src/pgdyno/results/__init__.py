"""Results of commands as types: what ``--format json`` prints and the run file keeps.

Each command's result is one frozen type in a file of its own; its published JSON schema,
``docs/reference/result-COMMAND.schema.json``, is made from the type by ``docs/generate.py``.
"""

from typing import TYPE_CHECKING

from pgdyno.json_types import Json
from pgdyno.results._stored import load, recorded_json, result_type, store

if TYPE_CHECKING:
    from pgdyno.results._stored import Result

__all__ = ["Result", "load", "recorded_json", "result_type", "schemas", "store"]


def schemas() -> dict[str, Json]:
    """Return the JSON schema of each command's result, and of ``unfinished``."""
    from pgdyno.results import _published

    return _published.schemas()
