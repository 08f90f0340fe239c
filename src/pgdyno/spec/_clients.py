"""Client groups: how many clients, what they execute, when, and over which connections."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from pgdyno.spec._arrival import Arrival, ArrivalSpec
from pgdyno.spec._base import CLIENTS_MAX, Duration, PositiveDuration, PositiveDurationUs, SpecTable
from pgdyno.spec.connections import pooled_connections
from pgdyno.spec.workload import ScriptMix

TRANSACTIONS_MAX = 1_000_000_000_000
INSTANCES_MAX = 10_000


class Validation(SpecTable):
    """Check of a pooled connection before a client gets it."""

    query: str = Field("select 1", min_length=1)
    after_idle_ms: Duration = Field(
        0, alias="after_idle", description="Check only connections that were idle for this time"
    )


class Pool(SpecTable):
    """A client-side connection pool, like DBCP or HikariCP."""

    max: int = Field(8, ge=1, le=CLIENTS_MAX, description="Maximum number of open connections")
    min_idle: int = Field(0, ge=0, le=CLIENTS_MAX, description="Minimum number of idle connections")
    max_wait_ms: PositiveDuration = Field(
        30_000,
        alias="max_wait",
        description="Longest wait for a connection before the transaction fails",
    )
    max_lifetime_ms: PositiveDuration | None = Field(
        None,
        alias="max_lifetime",
        description="Age at which a connection is replaced (default: never)",
    )
    idle_timeout_ms: PositiveDuration | None = Field(
        None,
        alias="idle_timeout",
        description="Idle time after which a connection is closed (default: never)",
    )
    validation: Validation | None = None

    @model_validator(mode="after")
    def _idle_within_max(self) -> Self:
        if self.min_idle > self.max:
            raise ValueError(f"min_idle, {self.min_idle}, must not be larger than max, {self.max}")
        return self


class Connection(SpecTable):
    """Rule for when a client or a pool makes new connections."""

    reconnect_every: int | None = Field(
        None,
        ge=1,
        le=TRANSACTIONS_MAX,
        description="New connection after this number of transactions",
    )
    slow_start: bool = Field(
        True, description="After a failure, reconnect 1, 2, 4, … clients at a time"
    )


def _known_policy(value: Any) -> Any:
    if value not in ("persistent", "per-transaction"):
        raise ValueError(
            f'{value!r} is neither "persistent" nor "per-transaction" nor a table'
            " such as { reconnect_every = 100 }"
        )
    return value


def _kind(value: Any) -> str:
    return "connection[table]" if isinstance(value, dict | Connection) else "connection[name]"


ConnectionPolicy = Annotated[
    Annotated[
        Literal["persistent", "per-transaction"],
        BeforeValidator(_known_policy),
        Tag("connection[name]"),
    ]
    | Annotated[Connection, Tag("connection[table]")],
    Discriminator(_kind),
]


class ClientGroup(SpecTable):
    """Clients that share a script mix, an arrival process, pools and a connection policy."""

    name: str = Field("clients", min_length=1, max_length=60)
    count: int = Field(8, ge=1, le=CLIENTS_MAX)
    instances: int = Field(
        1,
        ge=1,
        le=INSTANCES_MAX,
        description="Instances of the application: the clients take turns, and each has a pool of"
        " its own",
    )
    script: ScriptMix | None = Field(None, description="Default: workload.script")
    arrival: ArrivalSpec = "closed"
    think_ms: Duration = Field(
        0, alias="think", description="In a closed loop: pause after each transaction"
    )
    latency_limit_us: PositiveDurationUs | None = Field(
        None,
        alias="latency_limit",
        description="Transactions with a longer response time are counted as late",
    )
    pool: Pool | None = Field(
        None,
        description="Of each instance; default: no pool, each client has its own connection",
    )
    connection: ConnectionPolicy = "persistent"
    idle: bool = Field(False, description="Connect and send nothing")
    hold_open_ms: Duration = Field(
        0,
        alias="hold_open",
        description="Keep each transaction open for this time before its COMMIT",
    )

    @property
    def open_loop(self) -> Arrival | None:
        """The arrival process of an open loop; None for a closed loop."""
        return self.arrival if isinstance(self.arrival, Arrival) else None

    @property
    def reconnect_every(self) -> int | None:
        """Transactions after which a client makes a new connection; None for never."""
        if isinstance(self.connection, Connection):
            return self.connection.reconnect_every
        return 1 if self.connection == "per-transaction" else None

    @property
    def slow_start(self) -> bool:
        """True if clients reconnect gradually after a failure."""
        return not isinstance(self.connection, Connection) or self.connection.slow_start

    @property
    def connections_max(self) -> int:
        """Maximum number of connections that the group holds, in the pools of all instances."""
        if self.pool is None:
            return self.count
        return pooled_connections(
            self.count, self.pool.max, self.instances, min_idle=self.pool.min_idle
        )

    @model_validator(mode="after")
    def _compatible_keys(self) -> Self:
        if self.open_loop and self.think_ms:
            raise ValueError("think can only be used in a closed loop; an open one has a rate")
        if self.instances > 1 and self.pool is None:
            raise ValueError("instances differ in their pools only; give a pool, or remove them")
        if self.pool and self.reconnect_every:
            raise ValueError(
                "a pool keeps its connections; use pool.max_lifetime, or remove the pool"
            )
        if self.idle:
            busy = {"arrival": self.open_loop, "pool": self.pool, "hold_open":
                    self.hold_open_ms, "think": self.think_ms, "script": self.script}  # fmt: skip
            given = [name for name, value in busy.items() if value]
            if given:
                raise ValueError(f"idle clients send nothing; remove {given[0]}, or idle")
        return self
