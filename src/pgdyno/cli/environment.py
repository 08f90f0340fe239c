"""The server that PG* variables name, where nothing on the command line says that it is meant.

Such variables stand in many a profile, for other programs. A load on a server that nobody named is
worse than one line that says how to name it.
"""

from __future__ import annotations

import os
import shlex

_SERVER_VARIABLES = ("PGSERVICE", "PGDATABASE", "PGHOST", "PGHOSTADDR", "PGPORT")


def note_of_server_left_alone() -> str | None:
    """One line about the server that the environment names; ``None`` where it names none."""
    named = [name for name in _SERVER_VARIABLES if os.environ.get(name)]
    if not named:
        return None
    verb = "names" if len(named) == 1 else "name"
    return (
        f"{' and '.join(named)} {verb} a server, which is left alone: this run starts one of its"
        f" own; to load that one, add {_to_mean_it()}"
    )


def _to_mean_it() -> str:
    """The option that makes the rest of the environment count."""
    value = {name: shlex.quote(os.environ.get(name, "")) for name in _SERVER_VARIABLES}
    if os.environ.get("PGSERVICE"):
        return f"-d service={value['PGSERVICE']}"
    if os.environ.get("PGDATABASE"):
        return f"-d {value['PGDATABASE']}"
    host = os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR")
    return f"-h {shlex.quote(host)}" if host else f"-p {value['PGPORT']}"
