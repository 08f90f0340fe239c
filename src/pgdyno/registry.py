"""Plug-ins, found by listing a directory: rules, looks, remedies, dimensions, checks; or by the
name of a command: results, views.

A file that holds one is added to the directory, and no other file names it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """Import and yield the modules of a package."""
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def held_by(package: ModuleType, kind: type[T]) -> Iterator[T]:
    """Yield the values of ``kind`` that the modules of a package hold, also those in tuples."""
    for module in modules_of(package):
        for value in vars(module).values():
            held = value if isinstance(value, tuple) else (value,)
            yield from (each for each in held if isinstance(each, kind))


def module_named(package: str, name: str) -> ModuleType | None:
    """Import and return the module ``name`` of a package, and no other one; None if there is
    none."""
    path = f"{package}.{name}"
    if not name.isidentifier() or find_spec(path) is None:
        return None
    return importlib.import_module(path)


def by_name(things: Iterable[T], kind: str, name: Callable[[T], str]) -> dict[str, T]:
    """Return things by name, ordered by it. Raises ValueError for a name that two of them have;
    ``kind`` is what they are, in the plural."""
    found: dict[str, T] = {}
    for thing in things:
        if found.get(name(thing), thing) is not thing:
            raise ValueError(f'two {kind} have the name "{name(thing)}"')
        found[name(thing)] = thing
    return dict(sorted(found.items()))
