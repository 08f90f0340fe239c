"""The grammar: one file for each subject, with its ``ENTRIES``; found by listing this directory.

An :class:`~exam.drawn.model.Entry` is all that has to be written for a cause.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from exam.drawn.model import Entry


@cache
def entries() -> tuple[Entry, ...]:
    """Return all entries, by file and place."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(
        entry for name in names for entry in importlib.import_module(f"{__name__}.{name}").ENTRIES
    )
