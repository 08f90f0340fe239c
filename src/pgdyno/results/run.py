"""The result of ``pgdyno run``."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, WithJsonSchema

from pgdyno.record.finding import Finding
from pgdyno.record.part import Part
from pgdyno.results.budget import LatencyBudget
from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.common import (
    ErrorCount,
    Failures,
    Head,
    Latency,
    LedgerColumns,
    UnusualSettings,
    Verdict,
)
from pgdyno.results.run_parts import (
    CostliestStatement,
    EntityResolution,
    RunGovernor,
    ServerStatements,
    TpccLike,
    Vacuums,
)

if TYPE_CHECKING:
    from pgdyno.record import RunFile

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
    overlapped_with: tuple[str, ...]
    """Events and samples around it; empty: nothing that was watched"""
    sentence: str


class LatencyChange(Part):
    at_s: float
    within_s: float
    """Time between two values of the series where intervals were merged; 0: an interval or two"""
    client_group: str | None
    """null: all groups together"""
    percentile: Literal[50, 99]
    before_ms: float
    after_ms: float
    overlapped_with: tuple[str, ...]
    """Events and samples around it; empty: nothing that was watched"""
    sentence: str


class LatencyOverTime(Part):
    changes: tuple[LatencyChange, ...]
    """Sudden unplanned changes of the level of response times, without those that a change of
    throughput at the same moment says already, nor one of all groups that of a group"""
    changes_absent: str | None
    """The reason why there are none"""
    groups_not_examined: tuple[str, ...]
    """Of several client groups, those in which too few transactions ended"""


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


class Requests(Part):
    """Requests by HTTP"""

    requests: int
    reused: int
    """Over a connection that had served another request"""
    redirected: int
    """Because a redirect led to them"""
    status_1xx: int
    status_2xx: int
    status_3xx: int
    status_4xx: int
    status_5xx: int
    closed_by_server: int
    """Connections, between two requests or after a response"""
    sent_bytes: int
    received_bytes: int
    """Without those of TLS"""


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
    http: Requests | None
    """null: its scripts are SQL"""


class Statement(Part):
    group: str
    script: str
    statement: str
    done: int
    failed: int
    service_ms: Latency
    first_byte_ms: Latency | None
    """Of a request: until the first byte of the response; null: of SQL"""
    untouched: int
    """Those done that were to change or delete rows, and there were none (UPDATE 0)"""


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
    latency_over_time: LatencyOverTime
    throughput_by_clients: ThroughputByClients | None
    """Of a run with a ramp or steps in a closed loop; otherwise null"""
    latency_ms: Latencies
    latency_budget: LatencyBudget | None
    """Parts of the mean response time; null: not diagnosed"""
    groups: tuple[Group, ...]
    statements: tuple[Statement, ...]
    errors: tuple[ErrorCount, ...]
    generator: Generator
    findings: tuple[Finding, ...]
    vacuum: Vacuums | None
    """null: the server was not probed"""
    entity_resolution: EntityResolution | None
    """Of the workload entity-resolution; null: another workload"""
    costliest: CostliestStatement
    unusual_settings: UnusualSettings = None
    governor: RunGovernor | None = None
    """Absent: the spec has none"""
    server_statements: ServerStatements | None = None
    """Absent: not asked for (--statements)"""
    tpcc_like: TpccLike | None = None
    """Absent: another workload"""
    chapter: RecordedChapter | None = None
    """The chapter, for a run of a story"""

    in_tables: ClassVar[tuple[str, ...]] = ("findings",)

    @classmethod
    def of_tables(cls, run: "RunFile") -> dict[str, object]:
        """Return the findings."""
        return {"findings": run.findings()}
