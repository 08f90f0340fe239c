"""Dotted keys of a spec, as ``load.protocol`` or ``clients.web.think``, for changes of one key.

Which of them can differ between two slices of one run, the dimensions say.
"""

from __future__ import annotations

import tomllib
from typing import Any

from pgdyno.errors import UsageError


def set_key(fields: dict[str, Any], key: str, value: str) -> None:
    """Set a dotted key of a TOML-shaped spec in place. Raises :class:`UsageError`."""
    parts = key.split(".")
    table: Any = fields
    for part in parts[:-1]:
        table = _below(table, part, key)
    if isinstance(table, list):
        table = _only_member(table, key)
    table[parts[-1]] = _typed(value)


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
    from pgdyno.spec._clients import ClientGroup

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
