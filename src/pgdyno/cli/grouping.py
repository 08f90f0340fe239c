"""Commands whose options arrive as typed values, in structs for options that belong together.

A parameter of a command whose annotation is ``Annotated[TYPE, click.option(...)]`` is an option, or
several that set it. A parameter of any other type is a group of options: a struct whose fields are
annotated in the same way, and may be groups. ``instead`` changes or leaves out some options of a
group for one command. An option that sets a key of the spec is declared with ``sets`` in place of
``click.option``: ``spec_options`` makes the spec of it, and messages about the key name the option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click
from msgspec import Struct

Declared = Callable[[Any], Any]
"""A decorator of a command's function, as ``click.option`` and ``click.argument`` return it."""


class Sets(Struct, frozen=True):
    """The declaration of an option that sets a key of the spec."""

    key: str
    """As in a spec file, without the number of a client group: the option sets that of each."""
    names: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def option(self) -> str:
        """The option in messages."""
        return self.names[0]

    def __call__(self, function: Any) -> Any:
        """Declare the option for a command's function, as the decorators of click do."""
        return click.option(*self.names, **self.attributes)(function)


def sets(key: str, *names: str, **attributes: Any) -> Sets:
    """Return the declaration of an option of ``click.option`` that sets ``key`` of the spec.

    Messages about the key have the first of ``names``. A flag sets nothing if it is not given, and
    an option with ``multiple`` sets a table of NAME=VALUE pairs.
    """
    return Sets(key, names, attributes)


def set_options(*groups: Struct) -> Iterator[tuple[Sets, Any]]:
    """Yield each option of the groups that sets a key of the spec, and its value."""
    for group in groups:
        for name, hint in get_type_hints(type(group), include_extras=True).items():
            value = getattr(group, name)
            if isinstance(value, Struct):
                yield from set_options(value)
            for declared in getattr(hint, "__metadata__", ()):
                if isinstance(declared, Sets):
                    yield declared, value


class _Option(Struct, frozen=True):
    name: str
    declared: tuple[Declared, ...]

    def declarations(self) -> Iterator[Declared]:
        yield from self.declared

    def value(self, given: Mapping[str, object]) -> Any:
        return given[self.name]


class _Group(Struct, frozen=True):
    name: str
    type: type
    parts: tuple[_Option | _Group, ...]

    def declarations(self) -> Iterator[Declared]:
        for part in self.parts:
            yield from part.declarations()

    def value(self, given: Mapping[str, object]) -> Any:
        return self.type(**{part.name: part.value(given) for part in self.parts})


class _Instead(Struct, frozen=True):
    declared: Mapping[str, Declared | None]


def instead(**declared: Declared | None) -> _Instead:
    """Return an annotation of a group that replaces the options of these fields for one command.

    ``None`` leaves a field out: an option, or a group of them; the field then has its default.
    """
    return _Instead(declared)


def taking_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` as a callback of click with the options that its annotations declare."""
    parts = tuple(_parts(function, {}))

    @wraps(function)
    def callback(**given: Any) -> Any:
        return function(**{part.name: part.value(given) for part in parts})

    for declared in reversed([each for part in parts for each in part.declarations()]):
        declared(callback)
    return callback


def _parts(annotated: Any, changed: Mapping[str, Declared | None]) -> Iterator[_Option | _Group]:
    """Yield options and groups of a function's parameters or of a struct's fields, in order."""
    hints = get_type_hints(annotated, include_extras=True)
    hints.pop("return", None)
    for name, hint in hints.items():
        kind, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if name in changed:
            said = [changed[name]]
        if said == [None]:
            continue
        if said and not isinstance(said[0], _Instead):
            yield _Option(name, tuple(said))
        else:
            more = said[0].declared if said else {}
            yield _Group(name, kind, tuple(_parts(kind, {**changed, **more})))
