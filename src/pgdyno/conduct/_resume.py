"""Resuming a run file: the server may still be starting with the machine, and it must be the
one that the run began on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgdyno.conduct._server_away import retry_while_away
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.record.facts import ServerFacts
from pgdyno.server import connect, resolve_conninfo
from pgdyno.server.connecting.identity import identity_of
from pgdyno.spec import Spec

START_S_MAX = 300.0
"""Time for the start of a machine and the recovery of its server."""


def await_server(spec: Spec, watcher: Watcher) -> None:
    """Wait until the user's server answers. Raises RunError if it does not."""
    said = False

    def wait(seconds: float) -> None:
        nonlocal said
        if not said:
            watcher.note(
                f"the server does not answer yet; waiting for it, {START_S_MAX:g} s at most"
            )
            said = True
        time.sleep(seconds)

    if spec.server.kind == "existing":
        conninfo = spec.server.conninfo
        retry_while_away(lambda: resolve_conninfo(conninfo), wait, within_s=START_S_MAX)


def check_same_server(path: Path, target: Target) -> None:
    """Raise UsageError if the server or the database is not that of the run file ``path``."""
    with RunFile(path) as run:
        facts = run.run.server
        known = [each.system_identifier for each in run.sightings() if each.system_identifier]
    differs = next(_differences(facts, known[-1] if known else None, target), None)
    if differs is not None:
        raise UsageError(
            f"the run in {path} began on another server or database: {differs}",
            code="another-server",
            hint="connect to the one that it began on, or name another run file with -o",
        )


def _differences(facts: ServerFacts, identifier: str | None, target: Target) -> Iterator[str]:
    """Yield the differences; without a system identifier, those of other facts of the servers."""
    answering = _system_identifier(target)
    if identifier and answering:
        if identifier != answering:
            yield f"system identifier {identifier}, now {answering}"
    else:
        pairs: dict[str, tuple[Any, Any]] = {
            "data directory": (facts.get("data_directory"), target.facts["data_directory"]),
            "major version": (_major(facts), _major(target.facts)),
        }
        for name, (before, now) in pairs.items():
            if None not in (before, now) and before != now:
                yield f"{name} {before}, now {now}"
    before, now = facts.get("database"), target.facts["database"]
    if before is not None and before != now:
        yield f"database {before}, now {now}"


def _system_identifier(target: Target) -> str | None:
    """Return the server's system identifier; None if the role may not see it."""
    import psycopg

    with connect(target.conninfo) as connection, suppress(psycopg.errors.InsufficientPrivilege):
        return identity_of(connection).system_identifier
    return None


def _major(facts: ServerFacts) -> int | None:
    number = facts.get("version_num")
    return None if number is None else number // 10_000
