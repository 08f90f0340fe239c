"""The cells, one file each with a ``CELL``; they are found by listing this directory."""

from __future__ import annotations

import importlib
import pkgutil

from exam.model import Cell


def cells() -> list[Cell]:
    """Return all cells, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").CELL for name in names]
