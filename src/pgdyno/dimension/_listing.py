"""The list of all dimensions in the files of ``kinds/``."""

from __future__ import annotations

from functools import cache

from pgdyno.dimension._dimension import Dimension
from pgdyno.registry import by_name, held_by


@cache
def dimensions() -> tuple[Dimension, ...]:
    """Return every dimension, in the order in which they are applied and appear in titles."""
    from pgdyno.dimension import kinds as package

    found = by_name(held_by(package, Dimension), "dimensions", lambda each: each.id)
    return tuple(sorted(found.values(), key=lambda each: (each.order, each.id)))
