"""The list of dimensions: every file in ``kinds/``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from pgdyno.dimension._dimension import Dimension


@cache
def dimensions() -> tuple[Dimension, ...]:
    """Return every dimension, in the order in which they are applied and appear in titles."""
    from pgdyno.dimension import kinds as directory

    found: dict[str, Dimension] = {}
    for module in pkgutil.iter_modules(directory.__path__):
        imported = importlib.import_module(f"{directory.__name__}.{module.name}")
        dimension: Dimension = imported.DIMENSION
        if dimension.id in found:
            raise ValueError(f'two dimensions have the id "{dimension.id}"')
        found[dimension.id] = dimension
    return tuple(sorted(found.values(), key=lambda each: (each.order, each.id)))
