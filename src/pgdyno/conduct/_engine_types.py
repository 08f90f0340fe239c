"""Types of the load engine's configuration, as ``_engine.Load`` documents it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from pgdyno.server.connecting.conninfo import EngineTarget


class StepConfig(TypedDict):
    """A change of a closed loop's number of clients."""

    at_ms: int
    clients: int
    ramp_ms: int


class Segment(TypedDict):
    """A period of an arrival profile with a linear rate."""

    duration_ms: int
    rate_from: float
    rate_to: float


class Segments(TypedDict):
    """An arrival profile made of segments."""

    kind: str
    segments: list[Segment]
    repeat: bool


class SineConfig(TypedDict):
    """An arrival profile with a sinusoidal rate."""

    kind: str
    mean: float
    amplitude: float
    period_ms: int


class ArrivalConfig(TypedDict):
    """Arrivals of an open loop."""

    process: str
    profile: Segments | SineConfig
    when_busy: str
    queue_max: NotRequired[int]


class ValidationConfig(TypedDict):
    """Validation of idle connections."""

    query: str
    after_idle_ms: int


class PoolConfig(TypedDict):
    """A connection pool of a group."""

    max: int
    max_wait_ms: int
    min_idle: NotRequired[int]
    max_lifetime_ms: NotRequired[int]
    idle_timeout_ms: NotRequired[int]
    validation: NotRequired[ValidationConfig]


class ConnectionConfig(TypedDict):
    """Connection policy of a group."""

    reconnect_every: int | None
    slow_start: bool


class ScriptConfig(TypedDict):
    """A script of a group."""

    name: str
    text: str
    file: str
    weight: int


class HttpConfig(TypedDict):
    """The web server of a group."""

    host: str
    port: int
    tls: bool
    timeout_ms: int
    cookies: bool
    verify: NotRequired[bool]
    ca_file: NotRequired[str]


class GroupConfig(TypedDict):
    """A client group."""

    name: str
    clients: int
    schedule: list[StepConfig]
    think_ms: float
    variables: dict[str, str]
    scripts: list[ScriptConfig]
    http: NotRequired[HttpConfig]
    arrival: NotRequired[ArrivalConfig]
    latency_limit_us: NotRequired[int]
    pool: NotRequired[PoolConfig]
    instances: NotRequired[int]
    application_name: NotRequired[str]
    connection: NotRequired[ConnectionConfig]
    idle: NotRequired[bool]
    hold_open_ms: NotRequired[float]
    transactions: NotRequired[int]
    witness: NotRequired[str]


class LogConfig(TypedDict):
    """The transaction log of pgbench."""

    prefix: str
    sampling_rate: NotRequired[float]
    aggregate_s: NotRequired[int]
    failures_detailed: NotRequired[bool]


class AcksConfig(TypedDict):
    """The ack ledger."""

    directory: str
    label: NotRequired[int]


class EngineConfig(TypedDict):
    """The configuration of a load."""

    target: NotRequired[EngineTarget]
    threads: int
    connecting_max: int | None
    backoff_ms_min: int
    backoff_ms_max: int
    seed: int | None
    protocol: str
    max_tries: int
    groups: list[GroupConfig]
    give_up_after_ms: NotRequired[int]
    reactor: NotRequired[str]
    cpus: NotRequired[list[int]]
    nice: NotRequired[int]
    parameters: NotRequired[str]
    acks: NotRequired[AcksConfig]
    log: NotRequired[LogConfig]
    verbose_errors: NotRequired[bool]
    exit_on_abort: NotRequired[bool]
    session: NotRequired[str]
