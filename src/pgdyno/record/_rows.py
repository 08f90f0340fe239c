"""Rows that the reader of a run file returns: one frozen class for each kind of row.

Times are milliseconds since the run's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.record._kinds import SliceKind, TrialDecision, TrialKind
from pgdyno.record.facts import (
    EngineFacts,
    HostFacts,
    ServerFacts,
)

if TYPE_CHECKING:
    pass


class RunInfo(Struct, frozen=True):
    """The row of table ``run``, with its JSON decoded."""

    name: str
    pgdyno_version: str
    command: str
    started_unix_ms: int
    spec_text: str
    spec: Row
    server: ServerFacts
    host: HostFacts
    engine: EngineFacts
    status: str
    """running, done, failed, interrupted or broken; also interrupted if its writer has ended."""
    status_detail: str
    result: Row
    ended_ms: int | None
    asked: Sequence[str]
    """Words of the command line that, with the spec, repeat the run."""


class Slice(Struct, frozen=True):
    """A period of the run under one change."""

    id: int
    kind: SliceKind
    trial_id: int | None
    pair: int | None
    side: str | None
    change: Row
    started_ms: int
    ended_ms: int | None
    void: str | None
    """Reason why the slice decides nothing; None if it counts."""


class Sighting(Struct, frozen=True):
    """Identity of the server that answered at one time. A value is None if it is hidden from the
    user."""

    at_ms: int
    slice_id: int | None
    system_identifier: str | None
    started_unix_ms: int | None
    checkpointer_unix_ms: int | None
    """Start of its checkpointer."""
    in_recovery: int | None
    """1 for a standby."""


class Losses(Struct, frozen=True):
    """Number of connections lost in one interval."""

    at_ms: int
    slice_id: int | None
    count: int


class Refusal(Struct, frozen=True):
    """An error while connecting, in one interval."""

    at_ms: int
    sqlstate: str
    message: str


class Ledger(Struct, frozen=True):
    """Number of transactions in each column of the ledger, summed over some slices."""

    intended: int
    sent: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    backlog: int
    """Started or waiting at the end of the last interval."""
    retried: int
    expected_errors: int
    """Counted in ``done``."""
    late: int
    """Counted in ``done``: the response time exceeded the group's limit."""
    carried_in: int = 0
    """Backlog at the start of the slices, less the backlog that slices other than the last left; 0
    for a whole run."""

    @property
    def unaccounted(self) -> int:
        """Number of intended transactions in no column; 0 if the ledger is balanced."""
        ended = self.done + self.failed + self.skipped + self.cancelled
        return self.intended + self.carried_in - ended - self.backlog

    @property
    def balanced(self) -> bool:
        """True if the ledger identity holds."""
        return self.unaccounted == 0


class Interval(Struct, frozen=True):
    """Counts of one interval; ``client_group`` or ``script`` is None if it is summed over."""

    at_ms: int
    duration_ms: float
    slice_id: int | None
    client_group: str | None
    script: str | None
    clients: int
    connections: int
    intended: int
    sent: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    backlog: int
    retried: int
    expected_errors: int
    late: int

    @property
    def throughput_tps(self) -> float:
        """Transactions done per second; 0 for an interval without duration."""
        return 1000 * self.done / self.duration_ms if self.duration_ms else 0.0


class GroupInterval(Struct, frozen=True):
    """Clients and connections of one client group in one interval."""

    at_ms: int
    duration_ms: float
    slice_id: int | None
    client_group: str
    clients: int
    connections: int
    connects: int
    reconnects: int
    connect_failures: int
    unanswered: int
    """Clients that have waited for an answer for 2 s or longer at the end."""
    unanswered_us_max: int
    """The longest time of these."""


class HttpTotal(Struct, frozen=True):
    """Requests of one client group, over some slices."""

    client_group: str
    requests: int
    reused: int
    redirected: int
    status_1xx: int
    status_2xx: int
    status_3xx: int
    status_4xx: int
    status_5xx: int
    closed_by_server: int
    sent_bytes: int
    received_bytes: int


class ErrorTotal(Struct, frozen=True):
    """Errors of one kind at one statement; texts, client and line are those of the first error."""

    client_group: str
    script: str
    statement: str
    sqlstate: str
    expected: bool
    retried: bool
    count: int
    message: str
    file: str = ""
    line: int | None = None
    client: int | None = None
    """Its number within its group."""
    detail: str = ""
    hint: str = ""
    context: str = ""
    """The server's CONTEXT; ``detail`` and ``hint`` are its DETAIL and HINT."""
    excerpt: str = ""
    """The line of the statement at the server's error position, with a mark below the position."""
    advice: str = ""
    """Advice of pgdyno, if the protocol is the reason."""

    @property
    def words(self) -> str:
        """SQLSTATE and message; the message alone of an error that the server did not report."""
        is_sqlstate = len(self.sqlstate) == 5 and self.sqlstate.isalnum()
        return f"{self.sqlstate} {self.message}".strip() if is_sqlstate else self.message


class WaitTotal(Struct, frozen=True):
    """Average number of backends in one state and wait event, executing one statement."""

    backend_type: str
    state: str
    wait_event_type: str
    wait_event: str
    statement: str | None
    average: float


class StatementCount(Struct, frozen=True):
    """Counts of a statement by pg_stat_statements, over some slices. None: not counted by the
    server's version of it, or by its settings."""

    statement: str
    """Its shape."""
    calls: int
    exec_ms: float
    rows: int
    wal_bytes: int
    blocks_read: int
    temp_blocks: int
    plan_ms: float | None
    wal_records: int | None
    wal_fpi: int | None
    wal_buffers_full: int | None
    blocks_dirtied: int | None
    blocks_written: int | None
    local_blocks_dirtied: int | None
    read_ms: float | None
    write_ms: float | None
    jit_ms: float | None

    @property
    def compiled_ms(self) -> float:
        """The time of compiling, as far as it is counted; partly outside of ``exec_ms``."""
        return self.jit_ms or 0.0


class LockLink(Struct, frozen=True):
    """A backend that waits for a lock and that others wait for."""

    statement: str | None
    backend_type: str
    lock_type: str
    """Of the lock that it waits for, with the mode in which it wants it."""
    mode: str
    relation: str | None
    held_type: str | None
    """Of the lock that others want of it, with the mode in which it holds it; None if that is the
    lock which it wants itself."""
    held_mode: str | None
    held_relation: str | None


class LockQueueTotal(Struct, frozen=True):
    """A queue for a heavyweight lock, over all looks that saw it."""

    lock_type: str
    mode: str
    relation: str | None
    blocker_state: str
    blocker_type: str
    """Its backend_type; '' if that is not known."""
    blocker_mode: str | None
    """In which it holds what the first in line wait for."""
    blocker_pid: int | None
    """None if it was not the same backend each time; 0 for a prepared transaction."""
    blocker: str | None
    """Statement of the backend that all others in the queue wait for."""
    links: tuple[LockLink, ...]
    """Backends between the blocker and those who wait, that next to the blocker first."""
    waiting_statement: str | None
    waiting_mode: str | None
    """The strongest that those behind the last link want."""
    seen: int
    """Looks that saw it; the next four are sums over these."""
    waiting: int
    first: int
    places: int
    behind_request: int
    """Of those waiting, those in whose way is no lock held, only the request of another."""
    blocker_transaction_ms: float
    """Mean age of the blocker's transaction."""
    blocker_state_ms: float
    """Mean time for which the blocker had been in its state."""
    wait_ms_max: float
    blocker_transaction_ms_max: float


class GeneratorTotal(Struct, frozen=True):
    """Resources used by the load engine, summed over its threads."""

    threads: int
    cpu_user_us: int
    cpu_system_us: int
    run_queue_delay_us: int
    loop_stall_us_max: int


class Event(Struct, frozen=True):
    """An event of the run."""

    at_ms: int
    duration_ms: float | None
    slice_id: int | None
    kind: str
    label: str
    detail: Row
    drill_id: int | None


class LookRow(Struct, frozen=True):
    """A row of table ``look``, with its JSON decoded."""

    look: str
    at_ms: int
    duration_ms: float
    rows: list[Row] | None
    """None: it could not be looked at."""
    why: str
    allow: str


class Trial(Struct, frozen=True):
    """A row of table ``trial``, with its JSON decoded."""

    id: int
    kind: TrialKind
    step: int
    finding: str | None
    remedy: str | None
    title: str
    change: Row
    durability_class: str | None
    predicted_ratio: float | None
    pairs: int | None
    throughput_ratio: float | None
    throughput_ratio_lo: float | None
    throughput_ratio_hi: float | None
    latency_p99_ratio: float | None
    latency_p99_ratio_lo: float | None
    latency_p99_ratio_hi: float | None
    baseline_tps: float | None
    changed_tps: float | None
    compared: str | None
    verdict: str | None
    pairs_needed: int | None
    decision: TrialDecision | None
    sentence: str
    set_by: dict[str, str]
    """Setting in which the sides differ → sessions, reload or restart."""
    specific: int | None
    """1: the remedy acts on nothing but the finding's cause; None: it is no trial of a remedy."""
    proof: str | None
    """Its evidence about the finding: proved or helped; None if there is none."""
    proof_why: str | None
    predicted_response_ratio: float | None
    """Of the mean response time, where that was to become shorter."""
    predicted_ratio_lo: float | None
    predicted_ratio_hi: float | None
    """The interval of the predicted ratio; None without one."""

    @property
    def predicted_interval(self) -> tuple[float, float] | None:
        """The interval of the predicted ratio; None without one."""
        lo, hi = self.predicted_ratio_lo, self.predicted_ratio_hi
        return None if lo is None or hi is None else (lo, hi)


class DrillRow(Struct, frozen=True):
    """A row of table ``drill``, with its JSON decoded."""

    id: int
    fault: str
    title: str
    seed: int
    sham: int
    """1: all steps except the fault were executed."""
    options: Row
    settings: dict[str, str]
    bound_ms: float | None
    bound: str
