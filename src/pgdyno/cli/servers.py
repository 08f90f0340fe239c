"""The one or two servers of a command that accepts --pg-bindir twice.

The second server is measured first, because the result of the first is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.cli.files import run_path
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import given_options
from pgdyno.cli.positional import positional_for
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Spec

Result = TypeVar("Result")


@dataclass(frozen=True)
class ServerRun:
    """The work to do on one of the servers."""

    spec: Spec
    spec_text: str
    run_path: Path
    words: Sequence[str]
    """The command's own options, to repeat it on this server."""


@dataclass(frozen=True)
class Servers:
    """The servers of a command line: one, or two that differ only in their binaries."""

    specs: tuple[tuple[Spec, str], ...]
    """Spec and text of its file ('' without a file), first server first."""
    from_file: bool

    def runs(self, output: str | None, name: str, own: tuple[str, ...]) -> list[ServerRun]:
        """Return the run on each server, with a new run file by :func:`run_path`; the second
        server's has the suffix ``-against``. ``own`` names the command's own options."""
        path = run_path(output, name)
        paths = [path]
        if len(self.specs) > 1:
            own = (*own, "pg_bindir")
            paths.append(run_path(str(path.with_stem(f"{path.stem}-against")), name))
        words = given_options(*own)
        return [ServerRun(*spec, each, words) for spec, each in zip(self.specs, paths, strict=True)]


def servers_of(
    command: str,
    load: LoadOptions,
    bindirs: tuple[str, ...],
    own: Struct,
    *,
    scale: int,
    clients: int,
    quiet: bool,
) -> Servers:
    """Return the servers of the command line, by :func:`build_spec`, for each of ``bindirs``.

    Without a spec file, ``scale`` and ``clients`` are the defaults. Raises now for binaries that
    one of two servers lacks, before the other is measured.
    """
    if len(bindirs) > 2:
        raise UsageError(
            "--pg-bindir can be given at most twice, to compare two servers",
            code="too-many-servers",
        )
    positional = positional_for(command, load.what)
    if positional.spec_path is None:
        clients = load.clients or clients
        scripts = replace(load.scripts, scale=load.scripts.scale or max(scale, clients))
        load = replace(load, scripts=scripts, clients=clients)
    specs = tuple(
        build_spec(
            command,
            positional,
            replace(load, server=replace(load.server, pg_bindir=bindir)),
            own,
            quiet=quiet,
        )
        for bindir in bindirs or (None,)
    )
    from pgdyno.conduct import check_binaries

    for spec, _ in specs if len(specs) > 1 else ():
        check_binaries(spec)
    return Servers(specs, positional.spec_path is not None)


def run_on_each(runs: list[ServerRun], do: Callable[[ServerRun, Result | None], Result]) -> Result:
    """Return the result of ``do`` on the first server, given its result on the second, if any."""
    against = None
    for run in reversed(runs[1:]):
        against = do(run, against)
    return do(runs[0], against)
