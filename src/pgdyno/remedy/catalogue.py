"""The list of all remedies, from the ``REMEDIES`` of each file in this directory."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from pgdyno.remedy._remedy import Remedy
from pgdyno.spec.durability import severity


@cache
def catalogue() -> dict[str, Remedy]:
    """Return every remedy by id, ordered by durability class, then id."""
    found: dict[str, Remedy] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        listed = getattr(importlib.import_module(f"{__package__}.{module.name}"), "REMEDIES", ())
        for remedy in listed:
            if remedy.id in found:
                raise ValueError(f'two remedies have the id "{remedy.id}"')
            found[remedy.id] = remedy
    ordered = sorted(found.items(), key=lambda each: (severity(each[1].durability_class), each[0]))
    return dict(ordered)
