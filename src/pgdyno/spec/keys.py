"""Dotted keys of a spec, such as ``load.protocol`` or ``clients.web.think``, for changing one key.

The dimensions define which of them can differ between two slices of a run.
"""

from __future__ import annotations

from typing import Any

from pgdyno.errors import UsageError
from pgdyno.json_types import Fields


def set_key(fields: Fields, key: str, value: str) -> None:
    """Set a dotted key of a TOML-shaped spec in place. Raises :class:`UsageError`."""
    parts = key.split(".")
    table: Any = fields
    for part in parts[:-1]:
        table = _below(table, part, key)
    if isinstance(table, list):
        table = _only_member(table, key)
    table[parts[-1]] = _typed(value)


def _below(table: Any, part: str, key: str) -> Any:
    """Return the table called ``part``; in a list, the client group of that name.

    The name can be omitted if there is only one group: ``clients.arrival.rate``.
    """
    if isinstance(table, list):
        for member in table:
            if member["name"] == part:
                return member
        if part not in group_keys():
            names = ", ".join(member["name"] for member in table)
            raise UsageError(
                f'{key}: there is no client group "{part}"',
                code="no-such-group",
                hint=f"the groups are {names}",
            )
        table = _only_member(table, key)
    below = table.get(part)
    if not isinstance(below, dict | list):
        # A string, such as arrival = "closed", is replaced by a table.
        below = table[part] = {}
    return below


def group_keys() -> set[str]:
    """Return the keys of a client group as spelled in a spec file."""
    from pgdyno.spec._clients import ClientGroup

    return {field.alias or name for name, field in ClientGroup.model_fields.items()}


def _only_member(groups: list[Any], key: str) -> Any:
    if len(groups) == 1:
        return groups[0]
    names = ", ".join(member["name"] for member in groups)
    raise UsageError(
        f"{key}: must name a client group, as there are several",
        code="no-such-group",
        hint=f"the groups are {names}",
    )


def _typed(value: str) -> Any:
    """Parse a Boolean, number, list or table in TOML; anything else is a string."""
    import tomllib

    try:
        typed = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return value
    return typed if isinstance(typed, bool | int | float | list | dict) else value
