"""The faults, one file each, with its ``FAULT``; see ``pgdyno.drill.fault``."""

from __future__ import annotations

import pkgutil


def fault_names() -> list[str]:
    """Return the names of all faults, without importing them."""
    return sorted(each.name.replace("_", "-") for each in pkgutil.iter_modules(__path__))
