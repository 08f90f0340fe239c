"""The source and the clone: a server each, and a load that can run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from exam.captures.model import Fields
from exam.examinee import OF_NEIGHBOURS
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.imports import Choices, fields_with_texts, read_foreign
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.server import ConnInfo
from pgdyno.spec import spec_from_fields

SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB"}
"""Checkpoints are the exam's: one at the same time on both sides."""
_COMMAND_S_MAX = 120
WATCHER = "watcher"
"""The role that captures."""


class Side(Protocol):
    """A server with its load."""

    conninfo: ConnInfo
    postmaster: int
    keeps_sessions: bool
    """True if the sessions of the load stay while it rests."""

    def loaded(self) -> AbstractContextManager[None]:
        """Let the load run within the block."""

    def findings(self, seconds: float) -> list[str]:
        """Return what pgdyno finds in the load, the first one first."""


class Refused(Exception):
    """A command of pgdyno that failed; the text is the end of what it said."""


class PgdynoSide:
    """A server that pgdyno started, with a load of pgdyno's."""

    keeps_sessions = False

    def __init__(self, session: Session) -> None:
        assert session.target.server is not None
        self.session = session
        self.conninfo = session.target.server
        cluster = session.target.cluster
        assert cluster is not None
        assert cluster.pid is not None
        self.postmaster: int = cluster.pid

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Let the load run within the block, without the probes, whose transactions would count."""
        with self.session.probes.rest():
            self.session.start_load()
            self.session.wait_connected()
            try:
                yield
            finally:
                self.session.stop_load()

    def findings(self, seconds: float) -> list[str]:
        """Return what ``pgdyno run`` finds."""
        return found_in(run_spec(self.session).to_json())

    def failures(self) -> Fields:
        """Return the transactions of all its loads, those that failed, and why."""
        self.session.recorder.flush()
        with RunFile(self.session.recorder.path) as run:
            ledger, errors = run.ledger(), run.errors()
        return {
            "done": ledger.done,
            "failed": ledger.failed,
            "errors": [
                {"count": each.count, "message": each.words, "statement": each.statement}
                for each in errors[:10]
            ],
        }


def found_in(result: Mapping[str, Any]) -> list[str]:
    """Return the ids of the findings that are limits of the load, by rank, without those about
    other programs."""
    ranked = sorted((each for each in result["findings"] if each["rank"]), key=itemgetter("rank"))
    return [each["id"] for each in ranked if each["id"] not in OF_NEIGHBOURS]


@contextmanager
def side_of(fields: Fields, clients: Fields, seconds: float, run: Path) -> Iterator[PgdynoSide]:
    """Start a server with the load of a spec; ``clients`` are the fields of its first group that
    count."""
    first, *others = fields.get("clients") or [{}]
    whole = {
        **fields,
        "server": {"statements": True, "settings": SETTINGS},
        "clients": [{**first, **clients}, *others],
        "load": {"hold": f"{seconds:g}s"},
    }
    spec = spec_from_fields(whole, where=run.stem)
    with open_session(spec, run=run, command="run", spec_text="", watcher=Silent()) as session:
        yield PgdynoSide(session)


@contextmanager
def clone_side(
    capture: Path, clients: int | None, seconds: float, run: Path
) -> Iterator[PgdynoSide]:
    """Start a server with the load of a capture, as ``pgdyno run`` does; ``clients`` as ``-c``."""
    fields = fields_with_texts(read_foreign(capture, Choices(one_group=clients is not None)))
    with side_of(fields, {} if clients is None else {"count": clients}, seconds, run) as side:
        yield side


def pgdyno(*arguments: str, **environment: str) -> Any:
    """Return the JSON that a command of pgdyno prints. Raises Refused."""
    done = subprocess.run(
        [sys.executable, "-m", "pgdyno", *arguments, "--format", "json"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S_MAX,
    )
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise Refused(" ".join(done.stderr.split()[-40:])) from None


def capture(side: Side, path: Path, seconds: float, password: str) -> None:
    """Capture a load that runs, as a user does. Raises Refused."""
    address = ConnInfo(
        side.conninfo.host, side.conninfo.port, WATCHER, None, side.conninfo.database
    )
    pgdyno(
        *("capture", address.uri_without_password, "-T", f"{seconds:g}", "-o", str(path)),
        PGPASSWORD=password,
    )
    if not path.exists():
        raise Refused("the capture was not written")


def check(side: Side, seconds: float) -> list[str]:
    """Return what ``pgdyno check`` finds in a load that runs. Raises Refused."""
    with side.loaded():
        result = pgdyno(
            *("check", side.conninfo.uri_without_password, "-T", f"{seconds:g}"),
            PGPASSWORD=side.conninfo.password or "",
        )
    return found_in(result)
