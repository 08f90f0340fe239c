"""A server that is named by PG* variables only, and is therefore not used.

Many profiles set such variables for other programs. A server that is not named on the command line
must not be loaded by accident, so one line says which option selects it.
"""

from __future__ import annotations

import os
import shlex

_SERVER_VARIABLES = ("PGSERVICE", "PGDATABASE", "PGHOST", "PGHOSTADDR", "PGPORT")


def unused_server_note() -> str | None:
    """Return a note about the server named by the environment; ``None`` if there is none."""
    named = [name for name in _SERVER_VARIABLES if os.environ.get(name)]
    if not named:
        return None
    verb = "names" if len(named) == 1 else "name"
    return (
        f"{' and '.join(named)} {verb} a server, which is not used: this run starts its own;"
        f" to load the named server, add {_option_for_server()}"
    )


def _option_for_server() -> str:
    """Return the option that selects the server of the environment."""
    value = {name: shlex.quote(os.environ.get(name, "")) for name in _SERVER_VARIABLES}
    if os.environ.get("PGSERVICE"):
        return f"-d service={value['PGSERVICE']}"
    if os.environ.get("PGDATABASE"):
        return f"-d {value['PGDATABASE']}"
    host = os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR")
    return f"-h {shlex.quote(host)}" if host else f"-p {value['PGPORT']}"
