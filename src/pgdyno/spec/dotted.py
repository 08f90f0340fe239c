"""Dotted keys of a spec, as ``load.protocol`` or ``clients.web.think``, for changes of one key.

Only what can change between two slices of one run may be named: the load, the workload's scripts
and variables, the client groups, the standbys, the WAL's disk, and data checksums. The rest of the
server, and the data's disk, are other experiments.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from typing import Any

from pgdyno.errors import UsageError

_CHANGEABLE = ("load", "workload", "clients", "standby")
_CHANGEABLE_KEYS = {"disk.wal", "server.checksums"}
_TEXTS = {"disk.wal"}
"""Keys whose values are texts, whatever they look like."""
_FIXED = {"load.ramp", "load.hold", "load.steps", "workload.scale"}
_FIXED_TABLES = ("workload.init", "workload.setup", "workload.vacuum", "workload.initialize")


def with_keys(fields: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a TOML-shaped spec with dotted keys set. Raises :class:`UsageError`."""
    changed = copy.deepcopy(dict(fields))
    for key, value in values.items():
        _set(changed, key, value)
    return changed


def _set(fields: dict[str, Any], key: str, value: str) -> None:
    parts = key.split(".")
    of_load = parts[0] in _CHANGEABLE and len(parts) > 1 and key not in _FIXED
    of_load = of_load and ".".join(parts[:2]) not in _FIXED_TABLES
    if not of_load and key not in _CHANGEABLE_KEYS:
        raise UsageError(
            f"{key}: not a key that can differ between slices",
            code="key-not-variable",
            hint="keys of load, workload, clients.GROUP and standby can, disk.wal and"
            " server.checksums; for example load.protocol=simple",
        )
    table: Any = fields
    for part in parts[:-1]:
        table = _below(table, part, key)
    if isinstance(table, list):
        table = _only_member(table, key)
    table[parts[-1]] = value if key in _TEXTS else _typed(value)


def _below(table: Any, part: str, key: str) -> Any:
    """The table called ``part``; in a list, the client group of that name.

    Of a single group the name may be left out: ``clients.arrival.rate``.
    """
    if isinstance(table, list):
        for member in table:
            if member["name"] == part:
                return member
        if part not in group_keys():
            names = ", ".join(member["name"] for member in table)
            raise UsageError(f'{key}: no client group "{part}"', code="no-such-group", hint=names)
        table = _only_member(table, key)
    below = table.get(part)
    if not isinstance(below, dict | list):
        # What is there is a word, as arrival = "closed"; a key below it makes it a table.
        below = table[part] = {}
    return below


def group_keys() -> set[str]:
    """The keys of a client group, as a file has them."""
    from pgdyno.spec.clients import ClientGroup

    return {field.alias or name for name, field in ClientGroup.model_fields.items()}


def _only_member(groups: list[Any], key: str) -> Any:
    if len(groups) == 1:
        return groups[0]
    names = ", ".join(member["name"] for member in groups)
    raise UsageError(
        f"{key}: which client group?", code="no-such-group", hint=f"the groups are {names}"
    )


def _typed(value: str) -> Any:
    """A number, list or table as TOML has it; whatever is none of these is a string."""
    try:
        typed = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return value
    return typed if isinstance(typed, bool | int | float | list | dict) else value
