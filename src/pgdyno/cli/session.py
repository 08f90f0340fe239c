"""Sessions opened from the command line, with progress on stderr."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from pgdyno.cli.environment import unused_server_note
from pgdyno.cli.password import with_password
from pgdyno.cli.screen import watcher_for
from pgdyno.conduct import Session, initialise, open_session
from pgdyno.errors import UsageError
from pgdyno.spec import Spec
from pgdyno.trial.trust import check_something_succeeded
from pgdyno.visible import visible


@contextmanager
def session_for(
    command: str,
    given: Mapping[str, Any],
    spec: Spec,
    spec_text: str,
    path: Path,
    asked: Sequence[str] = (),
    settings: Collection[str] = (),
) -> Iterator[Session]:
    """Open the session of ``spec``, recorded in ``path``.

    ``given`` are the command's options, ``asked`` those that are not in the spec, as words, and
    ``settings`` the settings that will be changed."""
    if command != "run" and spec.load.transactions is not None:
        raise UsageError(
            f"load.transactions cannot be used with pgdyno {command}: its slices have a fixed time",
            code="contradiction",
            hint="remove load.transactions from the spec; it is for pgdyno run",
        )
    spec = with_password(spec, given.get("prompt"))
    with watcher_for(
        quiet=given["quiet"],
        every_s=given["progress"] / 1000,
        timestamps=given.get("progress_timestamp", False),
    ) as watcher:
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
            may_apply=given.get("may_apply", False),
            settings=settings,
        ) as session:
            yield session
            check_something_succeeded(session.reader())


def initialise_only(spec: Spec, given: Mapping[str, Any]) -> None:
    """Create the tables and print where they are."""
    spec = with_password(spec, given.get("prompt"))
    began_s = time.monotonic()
    with watcher_for(quiet=given["quiet"], every_s=given["progress"] / 1000) as watcher:
        done = initialise(spec, watcher)
    took_s = time.monotonic() - began_s
    where = visible(done.database)
    click.echo(f"initialised in {took_s:.2f} s: scale {done.scale}, in the database {where}")
