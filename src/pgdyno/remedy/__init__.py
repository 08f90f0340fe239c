"""The catalogue of remedies: what each change costs, in durability and otherwise.

A remedy is added by adding one file to this folder with a ``REMEDIES`` tuple; nothing else lists
them. ``catalogue()`` gives all of them by id.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from pgdyno.remedy.remedy import DurabilityClass, Kind, Remedy

__all__ = ["DurabilityClass", "Kind", "Remedy", "catalogue", "within"]


@cache
def catalogue() -> dict[str, Remedy]:
    """Every remedy by id, ordered by durability class, then id."""
    found: dict[str, Remedy] = {}
    for module in pkgutil.iter_modules(__path__):
        listed = getattr(importlib.import_module(f"{__name__}.{module.name}"), "REMEDIES", ())
        for remedy in listed:
            if remedy.id in found:
                raise ValueError(f'two remedies have the id "{remedy.id}"')
            found[remedy.id] = remedy
    return dict(sorted(found.items(), key=lambda entry: (entry[1].durability_class, entry[0])))


def within(remedy: Remedy, allowed: DurabilityClass) -> bool:
    """Whether a durability budget of ``allowed`` covers the remedy."""
    return remedy.durability_class <= allowed
