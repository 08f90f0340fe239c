"""Commands with a load: what is asked, the session with progress on stderr, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import click
from msgspec import Struct

from pgdyno.cli.connection import unused_server_note, with_password
from pgdyno.cli.files import page_path, run_path, wanted_page
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import OutputOptions, ProgressOptions
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import Positional, positional_for
from pgdyno.cli.screen import watching
from pgdyno.cli.spec_options import Given, build_spec
from pgdyno.conduct import Session, Target, initialise, open_session
from pgdyno.errors import UsageError
from pgdyno.escaping import visible_line
from pgdyno.record import Continuation
from pgdyno.results.trust import Trusted, check_trust
from pgdyno.spec import Spec
from pgdyno.trial.trust import check_something_succeeded

WITH_REQUESTS = ("run", "investigate", "compare", "knee")
"""Commands that send requests to a web server."""


class Result(Trusted, Protocol):
    """The result of a command with a load."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that are printed as JSON."""


R = TypeVar("R", bound=Result)


class Asked(Struct, frozen=True, kw_only=True):
    """A command with a load: the options that each has, and the spec made of all options."""

    command: str
    positional: Positional
    load: LoadOptions
    output: OutputOptions
    progress: ProgressOptions
    spec: Spec
    spec_text: str


def ask(
    command: str,
    load: LoadOptions,
    *own: Struct,
    output: OutputOptions,
    progress: ProgressOptions,
    varied: str | None = None,
    adapt: Callable[[Given], None] | None = None,
) -> Asked:
    """Return the command with its options and spec; arguments as for :func:`build_spec`."""
    positional = positional_for(command, load.what)
    spec, spec_text = build_spec(
        command, positional, load, *own, varied=varied, adapt=adapt, quiet=progress.quiet
    )
    return Asked(
        command=command,
        positional=positional,
        load=load,
        output=output,
        progress=progress,
        spec=spec,
        spec_text=spec_text,
    )


class MeasuredResult(Struct, Generic[R], frozen=True):
    """A result in its run file, and where to show it."""

    result: R
    path: Path
    page: Path | None
    output_format: str

    def show(self) -> None:
        """Print the result, and write its page."""
        print_result(self.output_format, self.path, self.result.to_json())
        write_page(self.path, self.page)

    def finish(self, *checks: Callable[[R], None]) -> None:
        """Show the result, and raise what ``checks`` do, or TrustError."""
        self.show()
        for check in (*checks, check_trust):
            check(self.result)


def measure(
    asked: Asked,
    spec: Spec,
    do: Callable[[Session], R],
    words: Sequence[str] = (),
    *,
    to: Path | Continuation | None = None,
    with_page: bool = False,
    **how: Any,
) -> MeasuredResult[R]:
    """Return the result of ``do`` in the session of ``spec``, which has the arguments of
    :func:`session_for`.

    It is recorded in ``to``, or in a run file by :func:`run_path`. With ``with_page`` there is a
    page also if none is asked for.
    """
    output = asked.output
    to = to or run_path(output.output, spec.name)
    path = to.path if isinstance(to, Continuation) else to
    page = page_path(output.report, path) if with_page else wanted_page(output.report)
    with session_for(
        asked.command, asked.load, asked.progress, spec, asked.spec_text, to, words, **how
    ) as session:
        result = do(session)
    return MeasuredResult(result, path, page, output.output_format)


@contextmanager
def session_for(
    command: str,
    load: LoadOptions,
    progress: ProgressOptions,
    spec: Spec,
    spec_text: str,
    path: Path | Continuation,
    asked: Sequence[str] = (),
    *,
    settings: Collection[str] = (),
    may_apply: bool = False,
    timestamps: bool = False,
    keep_server: Path | None = None,
    ready: Callable[[Target], None] | None = None,
    keep_free_bytes: int = 0,
) -> Iterator[Session]:
    """Open the session of ``spec``, recorded in ``path``, or in a run file to go on
    with.

    ``asked`` are the options that are not in the spec, as words, and ``settings`` the settings that
    will be changed. ``timestamps`` are those of progress lines. ``keep_server`` is the directory of
    a server that is started and kept. ``ready`` may refuse the server before anything is recorded,
    and tables are made only if they leave ``keep_free_bytes`` on their disk."""
    if command != "run" and spec.load.transactions is not None:
        raise UsageError(
            f"load.transactions cannot be used with pgdyno {command}: its slices have a fixed time",
            code="contradiction",
            hint="remove load.transactions from the spec; it is for pgdyno run",
        )
    if command not in WITH_REQUESTS and spec.http is not None:
        raise UsageError(
            f"a web server is loaded by pgdyno {', '.join(WITH_REQUESTS)} only, not by pgdyno"
            f" {command}",
            code="no-requests",
            hint="pgdyno run with the same spec; with server.conninfo it also diagnoses the"
            " database behind the web server",
        )
    if command != "run" and spec.server.kind == "none":
        raise UsageError(
            f"pgdyno {command} needs the database behind the web server",
            code="no-control",
            hint="name it with --control postgresql://…, or with server.conninfo in a spec;"
            " pgdyno run needs none",
        )
    spec = with_password(spec, load.server.connect.prompt)
    with watching(progress, timestamps=timestamps, metrics=spec.metrics) as watcher:
        note = unused_server_note() if spec.server.kind == "embedded" else None
        if note is not None:
            watcher.note(note)
        with open_session(
            spec,
            run=path,
            command=command,
            spec_text=spec_text,
            watcher=watcher,
            asked=asked,
            may_apply=may_apply,
            settings=settings,
            keep_server=keep_server,
            ready=ready,
            keep_free_bytes=keep_free_bytes,
        ) as session:
            yield session
            check_something_succeeded(session.reader())


def initialise_only(spec: Spec, load: LoadOptions, progress: ProgressOptions) -> None:
    """Create the tables and print where they are."""
    spec = with_password(spec, load.server.connect.prompt)
    began_s = time.monotonic()
    with watching(progress) as watcher:
        done = initialise(spec, watcher)
    took_s = time.monotonic() - began_s
    where = visible_line(done.database)
    click.echo(f"initialised in {took_s:.2f} s: scale {done.scale}, in the database {where}")
