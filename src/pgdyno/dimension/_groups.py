"""What dimensions of client groups share: the groups of a spec's fields, and their titles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def groups_of(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Client group → its fields; empty where nothing is known."""
    return {group["name"]: group for group in (fields or {}).get("clients", [])}


def told(words: Mapping[str, str], before: Mapping[str, Any] | None) -> Iterator[str]:
    """What is said of each group, with its name where it is not said of all of them."""
    all_of_them = words.keys() >= groups_of(before).keys()
    if all_of_them and len({*words.values()}) == 1:
        yield next(iter(words.values()))
    else:
        yield from (f"{group}: {said}" for group, said in words.items())
