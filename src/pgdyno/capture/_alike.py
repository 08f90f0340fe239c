"""A capture against its clone: the clone's load is captured as the source's was."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.capture._capturing import captured
from pgdyno.check import Where, temporary_run_file
from pgdyno.clone import Capture
from pgdyno.clone.difference import Differences, differences
from pgdyno.conduct import open_session
from pgdyno.conduct.watch import Watcher
from pgdyno.record import RunFile
from pgdyno.server import ConnInfo
from pgdyno.spec import Spec

_WARM_S = 2.0


class Alike(Struct, frozen=True):
    """A clone's load beside its source's."""

    differences: Differences
    done: int
    failed: int
    """Transactions of the clone."""


def alike(capture: Capture, spec: Spec, seconds: float, watcher: Watcher) -> Alike:
    """Run the clone of a capture for so long, and compare it with the capture. ``spec`` is the
    clone's, with ``server.statements``. Raises PgdynoError."""
    with temporary_run_file() as path:
        with open_session(
            spec, run=path, command="capture alike", spec_text="", watcher=watcher
        ) as session:
            server = session.target.server
            assert server is not None
            session.start_load()
            session.wait_connected()
            session.wait(_WARM_S)
            clone = captured(Where(_conninfo(server)), seconds, watcher)
            session.stop_load()
        with RunFile(path) as run:
            ledger = run.ledger()
    return Alike(differences(capture, clone), ledger.done, ledger.failed)


def _conninfo(server: ConnInfo) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **{**server.kwargs(), "application_name": None})
