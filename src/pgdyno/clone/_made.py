"""The fields of a spec for the load of a capture, with its setup and scripts."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.clone._scripts import script_of
from pgdyno.clone.capture_file import Capture, Source
from pgdyno.clone.keys import Keys
from pgdyno.clone.schema import setup_of
from pgdyno.json_types import Fields

_BUSY_MIN = 0.3
_IDLE_S_MAX = 0.005
"""Share of the sessions within a transaction, or time between two of a session, from which on
clients do not wait between two: those of a closed loop are idle while the client reads an answer
and sends the next statement."""
_WEIGHT = 1000


class Clone(Struct, frozen=True):
    """A spec with its files."""

    fields: Fields
    setup: str
    """Name of the file with the setup."""
    setup_text: str
    scripts: dict[str, str]
    """File name → text."""


def clone_of(capture: Capture, name: str, scale: float = 1.0) -> Clone:
    """Return the load of a capture, with rows ``scale`` times as many as the source's."""
    keys = Keys(capture.tables, scale)
    scripts, parts = {}, []
    most = max((each.per_s for each in capture.transactions), default=1.0)
    for number, each in enumerate(capture.transactions, 1):
        file = f"{name}-{number}.sql"
        scripts[file] = script_of(capture, each, keys)
        parts.append({"file": file, "weight": max(1, round(_WEIGHT * each.per_s / most))})
    source = capture.source
    clients: Fields = {"name": "captured", "count": max(1, source.sessions), "script": parts}
    if not _is_closed(source):
        clients["arrival"] = {"rate": round(sum(each.per_s for each in capture.transactions), 3)}
    setup = f"{name}-setup.sql"
    fields: Fields = {
        "name": name,
        "workload": {"setup": setup},
        "clients": [clients],
    }
    return Clone(fields, setup, setup_of(keys, capture.functions, capture.views), scripts)


def _is_closed(source: Source) -> bool:
    """Return whether the source's clients send one transaction after the other."""
    idle = source.sessions - source.busy_sessions
    is_short = idle <= _IDLE_S_MAX * source.transactions_per_s
    return is_short or source.busy_sessions >= _BUSY_MIN * source.sessions
