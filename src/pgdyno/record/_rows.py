"""What the reader of a run file hands out: one small frozen class per kind of row.

Times are milliseconds since the run's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno._engine import Histogram


@dataclass(frozen=True)
class RunInfo:
    """The table ``run``, with its JSON decoded."""

    name: str
    pgdyno_version: str
    command: str
    started_unix_ms: int
    spec_text: str
    spec: dict[str, Any]
    server: dict[str, Any]
    host: dict[str, Any]
    engine: dict[str, Any]
    status: str
    """running, done, failed, interrupted or broken; 'interrupted' also if the writer is gone."""
    status_detail: str
    result: dict[str, Any]
    ended_ms: int | None
    asked: Sequence[str] = ()
    """Words of the command line that, with the spec, make the run again; of older files none."""


@dataclass(frozen=True)
class Slice:
    """A stretch of the run under one setting."""

    id: int
    kind: str
    trial_id: int | None
    pair: int | None
    side: str | None
    change: dict[str, Any]
    started_ms: int
    ended_ms: int | None
    void: str | None = None
    """Why it decides nothing; None: it counts."""


@dataclass(frozen=True)
class Sighting:
    """Which server answered at a moment, since when it runs, and whether it was a standby; None
    where that is hidden, or not in the file."""

    at_ms: int
    slice_id: int | None
    system_identifier: str | None
    started_unix_ms: int | None
    checkpointer_unix_ms: int | None
    in_recovery: int | None = None


@dataclass(frozen=True)
class Losses:
    """Connections that were lost in one interval."""

    at_ms: int
    slice_id: int | None
    count: int


@dataclass(frozen=True)
class Refusal:
    """An error of connecting, in one interval."""

    at_ms: int
    sqlstate: str
    message: str


@dataclass(frozen=True)
class Ledger:
    """Where every intended transaction went, summed over the slices asked for."""

    intended: int
    sent: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    backlog: int
    """Begun or waiting when the last interval ended."""
    retried: int
    expected_errors: int
    """Within ``done``."""
    late: int
    """Within ``done``: the response took longer than the group's limit."""
    carried_in: int = 0
    """Backlog that the slices began with, less what they left to others than the last; 0 for a
    whole run."""

    @property
    def unaccounted(self) -> int:
        """Transactions that were intended and ended nowhere; 0 for a sound ledger."""
        ended = self.done + self.failed + self.skipped + self.cancelled
        return self.intended + self.carried_in - ended - self.backlog

    @property
    def balanced(self) -> bool:
        """The ledger identity."""
        return self.unaccounted == 0


@dataclass(frozen=True)
class Interval:
    """Counts of one interval. ``client_group`` and ``script`` are None where summed over."""

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
        """Transactions done per second; 0 for an interval of no length."""
        return 1000 * self.done / self.duration_ms if self.duration_ms else 0.0


@dataclass(frozen=True)
class GroupInterval:
    """Clients and connections of one group in one interval."""

    at_ms: int
    duration_ms: float
    slice_id: int | None
    client_group: str
    clients: int
    connections: int
    connects: int
    reconnects: int
    connect_failures: int


@dataclass(frozen=True)
class StatementTotal:
    """One statement of a script, over all slices asked for."""

    client_group: str
    script: str
    position: int
    statement: str
    done: int
    failed: int
    service: Histogram


@dataclass(frozen=True)
class ErrorTotal:
    """Errors of one kind at one statement; texts, client and line are those of the first one."""

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
    """By number in its group."""
    detail: str = ""
    hint: str = ""
    context: str = ""
    """DETAIL, HINT and CONTEXT of the server."""
    excerpt: str = ""
    """The line of the statement that the server points at, and a mark below it."""
    advice: str = ""
    """What to do where the way of sending is the reason."""


@dataclass(frozen=True)
class WaitTotal:
    """How many backends, on average, were in one state at one statement."""

    backend_type: str
    state: str
    wait_event_type: str
    wait_event: str
    statement: str | None
    average: float


@dataclass(frozen=True)
class GeneratorTotal:
    """What the load generator itself used, summed over its threads."""

    threads: int
    cpu_user_us: int
    cpu_system_us: int
    run_queue_delay_us: int
    loop_stall_us_max: int


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    at_ms: int
    duration_ms: float | None
    slice_id: int | None
    kind: str
    label: str
    detail: dict[str, Any]
    drill_id: int | None = None


@dataclass(frozen=True)
class FindingRow:
    """The table ``finding``, with its JSON decoded."""

    id: int
    step: int
    finding: str
    status: str
    rank: int | None
    sentence: str
    confidence: float | None
    evidence: list[Any]
    false_positives: str
    causes: list[Any]
    remedies: list[Any]


@dataclass(frozen=True)
class Trial:
    """The table ``trial``, with its JSON decoded."""

    id: int
    kind: str
    step: int
    finding: str | None
    remedy: str | None
    title: str
    change: dict[str, Any]
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
    decision: str | None
    sentence: str
    set_by: dict[str, str] = field(default_factory=dict)
    """Setting that the sides differ in → sessions, reload or restart; of older files none."""


@dataclass(frozen=True)
class DrillRow:
    """The table ``drill``, with its JSON decoded."""

    id: int
    fault: str
    title: str
    seed: int
    sham: int
    """1: everything was done but the fault."""
    options: dict[str, Any]
    settings: dict[str, str]
    bound_ms: float | None
    bound: str


@dataclass(frozen=True)
class CutRow:
    """The table ``cut``, with its JSON decoded."""

    drill_id: int
    number: int
    at_ms: int
    load_ms: float
    variant: str
    seed: int
    outcome: str
    seen_by: str
    server_said: str
    recovery_s: float | None
    ledger: dict[str, Any] | None
    proof: dict[str, Any]
    checks: list[Any]
    facts: dict[str, Any]
