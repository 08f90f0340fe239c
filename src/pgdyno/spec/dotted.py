"""Dotted keys of a spec, as ``load.protocol`` or ``clients.web.think``, for changes of one key.

Only what a load can take over between two slices may be named: the load, the workload's scripts and
variables, and the client groups. Server and disk are other experiments.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pgdyno.errors import UsageError

_CHANGEABLE = ("load", "workload", "clients")
_FIXED = {"load.ramp", "load.hold", "load.steps", "workload.scale"}


def with_keys(fields: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a TOML-shaped spec with dotted keys set. Raises :class:`UsageError`."""
    changed = copy.deepcopy(dict(fields))
    for key, value in values.items():
        _set(changed, key, value)
    return changed


def _set(fields: dict[str, Any], key: str, value: str) -> None:
    parts = key.split(".")
    if parts[0] not in _CHANGEABLE or len(parts) < 2 or key in _FIXED:
        raise UsageError(
            f"{key}: not a key that can differ between slices",
            code="key-not-variable",
            hint="keys of load, workload and clients.GROUP can, for example load.protocol=simple",
        )
    table: Any = fields
    for part in parts[:-1]:
        table = _below(table, part, key)
    table[parts[-1]] = _typed(value)


def _below(table: Any, part: str, key: str) -> Any:
    if isinstance(table, list):
        for member in table:
            if member["name"] == part:
                return member
        names = ", ".join(member["name"] for member in table)
        raise UsageError(f'{key}: no client group "{part}"', code="no-such-group", hint=names)
    return table.setdefault(part, {})


def _typed(value: str) -> int | str:
    return int(value) if value.isdecimal() else value
