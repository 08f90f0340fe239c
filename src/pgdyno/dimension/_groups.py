"""Functions for dimensions of client groups: the groups of a spec's fields, and their titles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.json_types import Fields


def groups_of(fields: Fields | None) -> dict[str, Fields]:
    """Return the fields of each client group by its name; empty for unknown fields."""
    return {group["name"]: group for group in (fields or {}).get("clients", [])}


def group_titles(words: Mapping[str, str], before: Fields | None) -> Iterator[str]:
    """Yield the title of each group with its name, or a single title that all groups share."""
    all_of_them = words.keys() >= groups_of(before).keys()
    if all_of_them and len({*words.values()}) == 1:
        yield next(iter(words.values()))
    else:
        yield from (f"{group}: {said}" for group, said in words.items())
