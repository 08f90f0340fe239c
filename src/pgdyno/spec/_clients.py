"""Client groups: how many clients, what they execute, when, and over which connections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from pgdyno.spec._arrival import Arrival, ArrivalSpec
from pgdyno.spec._base import CLIENTS_MAX, Duration, Part, PositiveDuration, PositiveDurationUs
from pgdyno.spec.mix import ScriptMix

TRANSACTIONS_MAX = 1_000_000_000_000


class Validation(Part):
    """What a pool asks a connection before it lends it out."""

    query: str = Field("select 1", min_length=1)
    after_idle_ms: Duration = Field(
        0, alias="after_idle", description="Only of connections that were idle for so long"
    )


class Pool(Part):
    """A client-side connection pool, as DBCP or HikariCP have it."""

    max: int = Field(8, ge=1, le=CLIENTS_MAX, description="Most connections open at once")
    min_idle: int = Field(
        0, ge=0, le=CLIENTS_MAX, description="Idle connections that are kept ready"
    )
    max_wait_ms: PositiveDuration = Field(
        30_000, alias="max_wait", description="How long a client waits for one before it fails"
    )
    max_lifetime_ms: PositiveDuration | None = Field(
        None, alias="max_lifetime", description="Age at which a connection is replaced"
    )
    idle_timeout_ms: PositiveDuration | None = Field(
        None, alias="idle_timeout", description="Idle time after which a connection is closed"
    )
    validation: Validation | None = None

    @model_validator(mode="after")
    def _idle_within_max(self) -> Pool:
        if self.min_idle > self.max:
            raise ValueError(f"min_idle is {self.min_idle}, more than max, which is {self.max}")
        return self


class Connection(Part):
    """When a client, or a pool, makes a new connection."""

    reconnect_every: int | None = Field(
        None, ge=1, le=TRANSACTIONS_MAX, description="After so many transactions"
    )
    slow_start: bool = Field(
        True, description="After a failure connections come back 1, 2, 4, … at a time"
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


class ClientGroup(Part):
    """Clients that share a script mix, an arrival process, a pool and a connection policy."""

    name: str = Field("clients", min_length=1, max_length=60)
    count: int = Field(8, ge=1, le=CLIENTS_MAX)
    script: ScriptMix | None = Field(None, description="Default: the workload's")
    arrival: ArrivalSpec = "closed"
    think_ms: Duration = Field(
        0, alias="think", description="Closed loop: pause after each transaction"
    )
    latency_limit_us: PositiveDurationUs | None = Field(
        None, alias="latency_limit", description="Later than this is counted as late"
    )
    pool: Pool | None = Field(None, description="Without one, each client has its own connection")
    connection: ConnectionPolicy = "persistent"
    idle: bool = Field(False, description="Connect and never send")
    hold_open_ms: Duration = Field(
        0, alias="hold_open", description="Hold each transaction open so long before its COMMIT"
    )

    @property
    def open_loop(self) -> Arrival | None:
        """Its arrivals, if it is an open loop."""
        return self.arrival if isinstance(self.arrival, Arrival) else None

    @property
    def reconnect_every(self) -> int | None:
        """Transactions after which a client makes a new connection; None for never."""
        if isinstance(self.connection, Connection):
            return self.connection.reconnect_every
        return 1 if self.connection == "per-transaction" else None

    @property
    def slow_start(self) -> bool:
        """Whether connections come back gradually after a failure."""
        return not isinstance(self.connection, Connection) or self.connection.slow_start

    @property
    def connections_max(self) -> int:
        """The most connections that it holds at once."""
        return min(self.count, self.pool.max) if self.pool else self.count

    @model_validator(mode="after")
    def _goes_together(self) -> ClientGroup:
        if self.open_loop and self.think_ms:
            raise ValueError("think is for a closed loop; an open one is paced by its rate")
        if self.pool and self.reconnect_every:
            raise ValueError(
                "a pool keeps its connections; use pool.max_lifetime, or leave the pool out"
            )
        if self.idle:
            busy = {"an arrival": self.open_loop, "a pool": self.pool, "hold_open":
                    self.hold_open_ms, "think": self.think_ms, "a script": self.script}  # fmt: skip
            given = [name for name, value in busy.items() if value]
            if given:
                raise ValueError(f"idle clients send nothing, so {given[0]} means nothing to them")
        return self
