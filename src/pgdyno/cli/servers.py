"""The same on one server or on two: what --pg-bindir means to commands that take it twice.

Of two servers the second has its turn first, for the result of the first one is held against its.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pgdyno.cli.again import words_of
from pgdyno.cli.files import run_path
from pgdyno.cli.positional import Asked
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Spec

Result = TypeVar("Result")


@dataclass(frozen=True)
class Turn:
    """What is to be done on one of the servers."""

    spec: Spec
    spec_text: str
    run_path: Path
    words: Sequence[str]
    """The command's own options, as they would be given again for this server."""


@dataclass(frozen=True)
class Servers:
    """The servers that a command line asks for: one, or two that differ in their programs alone."""

    specs: tuple[tuple[Spec, str], ...]
    """With the spec file's text, '' without one; that of the first server comes first."""

    def turns(self, output: str | None, name: str, own: tuple[str, ...]) -> list[Turn]:
        """For each server, with a new run file: as :func:`run_path`, the second one's beside it as
        ``…-against.db``. ``own`` names the command's own options."""
        path = run_path(output, name)
        paths = [path]
        if len(self.specs) > 1:
            own = (*own, "pg_bindir")
            paths.append(run_path(str(path.with_stem(f"{path.stem}-against")), name))
        words = words_of(*own)
        return [Turn(*spec, each, words) for spec, each in zip(self.specs, paths, strict=True)]


def servers_of(asked: Asked, given: Mapping[str, Any], *, scale: int, clients: int) -> Servers:
    """The servers of the command line, by :func:`build_spec`, for each --pg-bindir.

    Without a spec file, ``scale`` and ``clients`` stand in for what is not said. What one of two
    servers lacks is an error now, and not when the other has had its turn.
    """
    bindirs = given["pg_bindir"] or (None,)
    if len(bindirs) > 2:
        raise UsageError(
            "--pg-bindir is given once, or twice to compare two servers", code="too-many-servers"
        )
    if asked.spec_path is None:
        given = {
            **given,
            "scale": given["scale"] or max(scale, given["clients"] or clients),
            "clients": given["clients"] or clients,
        }
    specs = tuple(build_spec(asked, {**given, "pg_bindir": bindir}) for bindir in bindirs)
    from pgdyno.conduct import check_binaries

    for spec, _ in specs if len(specs) > 1 else ():
        check_binaries(spec)
    return Servers(specs)


def on_each(turns: list[Turn], do: Callable[[Turn, Result | None], Result]) -> Result:
    """What ``do`` comes to on the first server, given what it came to on the second, if there is
    one."""
    against = None
    for turn in reversed(turns[1:]):
        against = do(turn, against)
    return do(turns[0], against)
