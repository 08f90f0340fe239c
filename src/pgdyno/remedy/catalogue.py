"""The list of all remedies, from the ``REMEDIES`` of each file in this directory."""

from __future__ import annotations

import sys
from functools import cache
from itertools import chain

from pgdyno.registry import by_name, modules_of
from pgdyno.remedy._remedy import Remedy
from pgdyno.spec.durability import severity


@cache
def catalogue() -> dict[str, Remedy]:
    """Return every remedy by id, ordered by durability class, then id."""
    # Not imported: the package imports this module.
    package = sys.modules[__name__.rpartition(".")[0]]
    held = (getattr(module, "REMEDIES", ()) for module in modules_of(package))
    found: dict[str, Remedy] = by_name(chain.from_iterable(held), "remedies", lambda each: each.id)
    ordered = sorted(found.items(), key=lambda each: (severity(each[1].durability_class), each[0]))
    return dict(ordered)
