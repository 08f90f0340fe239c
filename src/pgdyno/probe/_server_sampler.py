"""Samples the server's views once a second, in one round trip, and derives events from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import cast

from pgdyno.json_types import Row
from pgdyno.probe._checkpoints import Checkpoint, CheckpointWatch
from pgdyno.probe._link import Link
from pgdyno.probe._locks import Lock, summarise
from pgdyno.probe._origins import by_origin, by_state
from pgdyno.probe._other_load import ForeignLoadWatch, OtherProbes
from pgdyno.probe._processes import find_postmaster
from pgdyno.probe._vacuums import Vacuum, VacuumWatch
from pgdyno.probe.gaps import Gaps, MissingProbes
from pgdyno.probe.statement_shapes import statement_shape
from pgdyno.record import Recorder

PLAIN = (
    *("database", "checkpointer", "bgwriter", "wal", "io", "table", "replication", "vacuum"),
    *("age", "server", "slot", "archiver"),
)
"""Queries whose rows are written unchanged to the table metric_NAME."""
SELDOM = ("connection", "prepared", "sequence", "autovacuum", "index", "multixact", "catalogue")
"""Such queries about figures that change slowly, asked together with sizes."""
SLOW_NS = 500_000_000
SELDOM_EVERY = 10
"""In samples; a table's size needs a system call for each of its files."""
DEAD_ROWS_MIN = 1000
"""Dead rows of a table from which on locks that exclude autovacuum are read."""
IO_KEYS = ("backend_type", "object", "context")

OTHER_SESSIONS = "other roles' sessions"
"""The name of the sessions that a role without pg_monitor does not see."""
OFF = {
    "track_io_timing": "so read and write times of data files are zero",
    "track_wal_io_timing": "so times of WAL writes and flushes are zero",
    "track_activities": "so states and waits of sessions are not visible",
    "track_counts": "so tables and the database have no statistics, and autovacuum never runs",
}


class ServerSampler:
    """Sampler that reads through one link and writes the metric tables. Not thread-safe.

    With ``own_transactions``, which counts those of the probes, it also reads the load of others,
    to which the probes of another pgdyno do not belong.
    """

    def __init__(
        self,
        link: Link,
        recorder: Recorder,
        missing: MissingProbes,
        watch: CheckpointWatch,
        gaps: Gaps,
        *,
        own_transactions: Callable[[], int] | None = None,
    ) -> None:
        self._own_transactions = own_transactions
        self._link = link
        self._gaps = gaps
        self._recorder = recorder
        self._missing = missing
        self._checkpoints = watch
        self._vacuums = VacuumWatch()
        self._foreign = ForeignLoadWatch()
        self._other_probes = OtherProbes()
        self._sizes: dict[str, int] = {}
        self._has_dead_rows = False
        self._samples = 0
        self._connections = 0
        self._seen: Row | None = None
        self.answered_ns = time.monotonic_ns()
        """Time of the server's last answer, monotonic."""
        self.took_s = 0.0
        """Time until the last answer with the views."""

    def start_session(self) -> int | None:
        """Record the rights of a new session; return the postmaster's process ID if seen here."""
        answers = self._link.fetch(["session"])
        if not answers:
            return None
        self._connections = self._link.connections
        session = answers["session"][0]
        for setting, consequence in OFF.items():
            if not session[setting]:
                self._missing.add(setting, f"{setting} is off, {consequence}")
        if not session["sees_all"]:
            self._missing.add(
                OTHER_SESSIONS,
                f"role {session['role']} lacks pg_monitor, so only its own sessions are visible: no"
                " waits of background processes, no queries of other roles",
            )
        return find_postmaster(session["backend_pid"], session["started_unix_s"])

    @property
    def is_new(self) -> bool:
        """True if the link has connected again since ``start_session``."""
        return self._connections != self._link.connections

    def sample(self, *, full: bool, with_roles: bool) -> dict[int, str] | None:
        """Sample all views; return None while the server is away.

        ``full`` also writes rows without activity and reads sizes, for the start and end of a
        slice. ``with_roles`` returns roles by pid: backend types, without client backends but those
        of others.
        """
        asked_ns = time.monotonic_ns()
        slice_id = self._recorder.current_slice
        extra = ["lock", "foreign", "client", *(("process",) if with_roles else ())]
        extra += ["table_lock"] if self._has_dead_rows else []
        own = self._own_transactions
        answers = self._link.fetch([*PLAIN, *extra, *(("load", "other_probes") if own else ())])
        if answers is None:
            self._gaps.lost("server", self._link.why_away)
            return None
        self.answered_ns = time.monotonic_ns()
        self.took_s = (self.answered_ns - asked_ns) / 1e9
        ns = (asked_ns + self.answered_ns) // 2
        if self.answered_ns - asked_ns > SLOW_NS:
            ns = self.answered_ns  # The server answered late: it was stopped or overloaded.
        if full or self._samples % SELDOM_EVERY == 0:
            answers |= self._ask_seldom()
        self._samples += 1
        if own is not None and "load" in answers:
            others = self._other_probes.add(answers.get("other_probes", []))
            answers["load"][0]["own_transactions"] = own() + others
        for name, rows in self._rows(answers, full=full).items():
            self._recorder.add_rows(f"metric_{name}", rows, ns=ns, slice_id=slice_id)
        self._watch(ns, answers)
        self._gaps.back("server")
        return {row["pid"]: row["role"] for row in answers.get("process", ())}

    def end(self) -> None:
        """Write the events still in progress, and start again from nothing."""
        ns = time.monotonic_ns()
        self._write_checkpoints(self._checkpoints.unfinished(ns))
        self._write_vacuums(self._vacuums.unfinished(ns))
        self._checkpoints.forget()
        self._vacuums.forget()

    def _rows(self, answers: Mapping[str, list[Row]], *, full: bool) -> dict[str, list[Row]]:
        rows = {name: answers[name] for name in (*PLAIN, *SELDOM, "load") if name in answers}
        if not full and rows.get("server") == [self._seen]:
            del rows["server"]
        elif rows.get("server"):
            self._seen = rows["server"][0]
        if "io" in rows and not full:
            rows["io"] = [row for row in rows["io"] if _moved(row)]
        if "table_lock" in answers:
            rows["table_lock"] = [self._with_statement_id(row) for row in answers["table_lock"]]
        if "table" in rows:
            sizes = self._sizes
            self._has_dead_rows = any(
                (row["n_dead_tup"] or 0) >= DEAD_ROWS_MIN for row in rows["table"]
            )
            rows["table"] = [
                row | {"size_bytes": sizes.get(row["relation"])} for row in rows["table"]
            ]
        if "client" in answers:
            rows["activity"] = by_state(answers["client"])
            rows["origin"] = by_origin(answers["client"])
        if "lock" in answers:
            rows["lock"] = [summarise(cast("list[Lock]", answers["lock"]))]
        if "foreign" in answers:
            rows["foreign"] = self._foreign.moved(answers["foreign"])
        return rows

    def _with_statement_id(self, row: Row) -> Row:
        """Return a row with the id of its statement's shape in place of the text."""
        statement = row.pop("statement")
        number = self._recorder.statement_id(statement_shape(statement)) if statement else None
        return row | {"statement_id": number}

    def _ask_seldom(self) -> dict[str, list[Row]]:
        """Read figures that change slowly, and tables' sizes: the previous if one is locked."""
        answers = self._link.fetch([*SELDOM, "table_size"]) or {}
        if "table_size" in answers:
            self._sizes = {row["relation"]: row["size_bytes"] for row in answers["table_size"]}
        return answers

    def _watch(self, ns: int, answers: Mapping[str, list[Row]]) -> None:
        if answers.get("checkpointer"):
            row = {**answers["checkpointer"][0], **(answers.get("wal") or [{}])[0]}
            self._write_checkpoints(self._checkpoints.see_counters(ns, row))
        if "vacuum" in answers and "table" in answers:
            self._write_vacuums(self._vacuums.see(ns, answers["vacuum"], answers["table"]))

    def _write_checkpoints(self, checkpoints: list[Checkpoint]) -> None:
        for checkpoint in checkpoints:
            self._recorder.add_event(
                "checkpoint",
                checkpoint.label,
                _checkpoint_detail(checkpoint, self._recorder),
                ns=checkpoint.began_ns,
                duration_ms=checkpoint.duration_ms,
            )

    def _write_vacuums(self, vacuums: list[Vacuum]) -> None:
        for vacuum in vacuums:
            self._recorder.add_event(
                "vacuum",
                vacuum.label,
                {
                    "relation": vacuum.relation,
                    "automatic": vacuum.automatic,
                    "to_prevent_wraparound": vacuum.to_prevent_wraparound,
                    "finished": vacuum.finished,
                },
                ns=vacuum.began_ns,
                duration_ms=vacuum.duration_ms,
            )


def _moved(row: Row) -> bool:
    """True if any counter of a row of metric_io is not zero."""
    return any(value for name, value in row.items() if name not in IO_KEYS)


def _checkpoint_detail(checkpoint: Checkpoint, recorder: Recorder) -> Row:
    sync_ns = checkpoint.sync_ns
    return {
        "reason": checkpoint.reason,
        "write_ms": checkpoint.write_ms,
        "sync_ms": checkpoint.sync_ms,
        "buffers": checkpoint.buffers,
        "sync_at_ms": [recorder.at_ms(ns) for ns in sync_ns] if sync_ns else None,
        "seen": checkpoint.seen,
        "finished": checkpoint.finished,
    }
