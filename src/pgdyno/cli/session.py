"""Sessions opened from the command line, with progress on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from pgdyno.cli.connection import unused_server_note, with_password
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import ProgressOptions
from pgdyno.cli.screen import watching
from pgdyno.conduct import Session, Target, initialise, open_session
from pgdyno.errors import UsageError
from pgdyno.record import Continuation
from pgdyno.spec import Spec
from pgdyno.trial.trust import check_something_succeeded
from pgdyno.visible import visible_line

WITH_REQUESTS = ("run", "investigate", "compare", "knee")
"""Commands that send requests to a web server."""


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
