"""The result of ``pgdyno run``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, WithJsonSchema

from pgdyno.results.common import (
    ChangeJson,
    ErrorCount,
    Failures,
    Fields,
    Head,
    IfAbsent,
    Latency,
    LedgerColumns,
    Number,
    Part,
    Verdict,
)

OpenInterval = Annotated[
    tuple[float | None, float | None],
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": ["number", "null"]},
            "minItems": 2,
            "maxItems": 2,
            "description": "95 % interval; null as its end: unbounded",
        }
    ),
]


class LevelChange(Part):
    at_s: float
    before_tps: float
    after_tps: float
    sentence: str


class Drop(Part):
    at_s: float
    lasted_s: float
    throughput_tps: float
    overlapped_with: tuple[str, ...]
    sentence: str


class ThroughputOverTime(Part):
    changes: tuple[LevelChange, ...]
    """Sudden unplanned changes of the level of throughput"""
    changes_absent: str | None
    """The reason why there are none: none was found, the periods under one load were too short, or
    they were not searched for"""
    drops: tuple[Drop, ...]
    """Periods in which throughput nearly stopped, below a fifth of its median"""
    drops_absent: str | None
    """Like changes_absent"""


class ClientsPoint(Part):
    clients: int
    throughput_tps: float


class ThroughputByClients(Part):
    sentence: str
    clients: tuple[ClientsPoint, ...]
    knee_clients: float | None
    """Number of clients at which throughput stops growing in proportion; null: no knee in the
    range"""
    ci95: OpenInterval | None
    """Interval of the knee"""
    relative_error: float | None
    """Relative error of the fitted Universal Scalability Law; null: no fit"""


class Latencies(Part):
    """response = wait + service; wait = client_lag + pool_wait + connect"""

    response: Latency
    wait: Latency
    client_lag: Latency
    pool_wait: Latency
    connect: Latency
    service: Latency


class ConnectLatencies(Part):
    """Phases of making a connection"""

    tcp: Latency
    tls: Latency
    auth: Latency
    ready: Latency
    total: Latency


class Connections(Part):
    open: int
    connects: int
    reconnects: int
    connect_failures: int
    connect_ms: ConnectLatencies


class Group(Part):
    """A client group over the measured slices"""

    group: str
    clients: int
    clients_connected: int
    """Maximum number of clients connected at the same time"""
    loop: Literal["closed", "open", "idle"]
    asked_tps: float | None
    throughput_tps: float
    rate_held: bool
    waiting_at_end: int
    sentence: str
    ledger: LedgerColumns
    latency_ms: Latencies
    connections: Connections

    if_absent: ClassVar[IfAbsent] = {
        "clients_connected": lambda group: group["connections"]["open"]
    }


class Statement(Part):
    group: str
    script: str
    statement: str
    done: int
    failed: int
    service_ms: Latency


class Generator(Part):
    """The load generator's audit of itself"""

    reactor: str | None
    reactor_why: str | None
    cpus: tuple[int, ...] | None
    nice: int | None
    threads: int
    cpu_us_per_transaction: float
    send_late_ms_p99: float
    loop_stall_ms_max: float
    run_queue_delay_ms: float


class Evidence(Part):
    name: str
    value: int | float | str | None
    unit: str
    threshold: str | None
    window_ms: tuple[Number, Number] | None


class Proposal(Part):
    remedy_id: str
    change: ChangeJson
    predicted_ratio: float
    why: str


class Finding(Part):
    id: str
    step: int
    status: Literal["found", "cleared", "skipped"]
    rank: int | None
    sentence: str
    confidence: float | None
    evidence: tuple[Evidence, ...]
    false_positives: str
    causes: tuple[str, ...]
    remedies: tuple[Proposal, ...]


def _failures(result: Fields) -> Fields:
    """Return the failures by the ledger, which does not have their most frequent error."""
    ledger = result["ledger"]
    ended = ledger["done"] + ledger["failed"]
    share = ledger["failed"] / ended if ended else 0.0
    return {"count": ledger["failed"], "share": share, "sqlstate": None, "message": None}


def _not_searched(_result: Fields) -> Fields:
    why = "an older version recorded the run"
    return {"changes": (), "changes_absent": why, "drops": (), "drops_absent": why}


class RunResult(Head):
    model_config = ConfigDict(title="pgdyno run --format json")

    verdict: Verdict
    failures: Failures
    ledger: LedgerColumns
    """Of the whole run"""
    ledger_measured: LedgerColumns
    """Of the measured slices: the sum of the groups' ledgers"""
    throughput_tps: float
    steadiness: str
    throughput_over_time: ThroughputOverTime
    throughput_by_clients: ThroughputByClients | None
    """Of a run with a ramp or steps in a closed loop; otherwise null"""
    latency_ms: Latencies
    groups: tuple[Group, ...]
    statements: tuple[Statement, ...]
    errors: tuple[ErrorCount, ...]
    generator: Generator
    findings: tuple[Finding, ...]

    if_absent: ClassVar[IfAbsent] = {
        **Head.if_absent,
        "failures": _failures,
        "ledger_measured": lambda result: {**result["ledger"], "over": "measured"},
        "throughput_over_time": _not_searched,
        "throughput_by_clients": lambda _: None,
    }
