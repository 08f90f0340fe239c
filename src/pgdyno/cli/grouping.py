"""Commands whose options arrive as typed values, in structs for options that belong together.

A parameter of a command whose annotation is ``Annotated[TYPE, click.option(...)]`` is an option, or
several that set it. A parameter of any other type is a group of options: a struct whose fields are
annotated in the same way, and may be groups. ``instead`` changes or leaves out some options of a
group for one command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct

Declared = Callable[[Any], Any]
"""A decorator of a command's function, as ``click.option`` and ``click.argument`` return it."""


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
