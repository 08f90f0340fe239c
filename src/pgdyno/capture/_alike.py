"""A capture against its clone: the clone's load is captured as the source's was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from pgdyno.capture._capturing import captured
from pgdyno.check import Where, temporary_run_file
from pgdyno.clone import Capture
from pgdyno.clone.likeness import Failures, Likeness, likeness
from pgdyno.clone.queues import scripts_per_s
from pgdyno.conduct import open_session
from pgdyno.conduct.watch import Watcher
from pgdyno.record import RunFile, SliceKind
from pgdyno.server import ConnInfo
from pgdyno.spec import Spec

_WARM_S = 2.0
_FAILURES_MAX = 10


def alike(capture: Capture, spec: Spec, seconds: float, watcher: Watcher) -> Likeness:
    """Run the clone of a capture for so long, and compare it with the capture. ``spec`` is the
    clone's, with ``server.statements``. Raises PgdynoError."""
    slices: list[int] = []
    with temporary_run_file() as path:
        with open_session(
            spec, run=path, command="capture alike", spec_text="", watcher=watcher
        ) as session:
            server = session.target.server
            assert server is not None

            @contextmanager
            def measured() -> Iterator[None]:
                with session.measured(SliceKind.RUN) as slice_id:
                    slices.append(slice_id)
                    yield

            session.start_load()
            session.wait_connected()
            session.wait(_WARM_S)
            clone = captured(Where(_conninfo(server)), seconds, watcher, measured)
            session.stop_load()
        with RunFile(path) as run:
            ledger, took_s = run.ledger(slices), run.seconds(slices)
            errors = run.errors(slices)
    # Its clients know the transactions without those of the probes.
    clone = _at_rate(clone, round(ledger.done / took_s, 3) if took_s else 0.0)
    source = _at_rate(capture, scripts_per_s(capture))
    clients = sum(group.count for group in spec.clients)
    failures = [Failures(each.count, each.words, each.statement) for each in errors]
    return likeness(
        source,
        clone,
        clients=clients,
        done=ledger.done,
        failed=ledger.failed,
        failures=failures[:_FAILURES_MAX],
    )


def _at_rate(capture: Capture, per_s: float) -> Capture:
    """Return a capture with the executions of scripts in place of commits: a unit has several
    commits, and commits without a captured statement are in no script."""
    source = capture.source
    cpu_ms = source.cpu_ms
    if cpu_ms is not None and per_s:
        cpu_ms *= source.transactions_per_s / per_s
    return replace(capture, source=replace(source, transactions_per_s=per_s, cpu_ms=cpu_ms))


def _conninfo(server: ConnInfo) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **{**server.kwargs(), "application_name": None})
