"""The list of all remedies in the files of this directory."""

from __future__ import annotations

import sys
from functools import cache

from pgdyno.registry import by_name, held_by
from pgdyno.remedy._remedy import Remedy
from pgdyno.spec.durability import severity


@cache
def catalogue() -> dict[str, Remedy]:
    """Return every remedy by id, ordered by durability class, then id."""
    # Not imported: the package imports this module.
    package = sys.modules[__name__.rpartition(".")[0]]
    found = by_name(held_by(package, Remedy), "remedies", lambda each: each.id)
    ordered = sorted(found.items(), key=lambda each: (severity(each[1].durability_class), each[0]))
    return dict(ordered)
