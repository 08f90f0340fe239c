"""The table ``front`` of a spec: a web application with a pool of connections that pgdyno starts
before the server, and to which the clients send requests."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pgdyno.json_types import Fields
from pgdyno.spec._base import PositiveDuration, SpecTable
from pgdyno.spec.units import format_duration

FrontPoolName = Literal["dbcp2", "tomcat-jdbc", "hikari"]
TITLES = {"dbcp2": "Commons DBCP2", "tomcat-jdbc": "Tomcat JDBC", "hikari": "HikariCP"}
"""The pools' own names."""
OWN_MAX = {"dbcp2": 8, "tomcat-jdbc": 100, "hikari": 10}
"""The most connections of each pool by its own default."""
OWN_WAITS_MS = {"dbcp2": -1, "tomcat-jdbc": 30_000, "hikari": 30_000}
"""The longest wait for a connection of each, in the same way; -1: without limit."""
OWN_NAMES = {
    "dbcp2": {"max_total": "maxTotal", "max_wait": "maxWaitMillis"},
    "tomcat-jdbc": {"max_total": "maxActive", "max_wait": "maxWait"},
    "hikari": {"max_total": "maximumPoolSize", "max_wait": "connectionTimeout"},
}
"""Names that each pool has for a key."""
CONNECTOR_NAMES = {
    "threads": "maxThreads",
    "connections": "maxConnections",
    "keepalive_requests": "maxKeepAliveRequests",
    "prepare_threshold": "prepareThreshold",
    "rewrite_batched_inserts": "reWriteBatchedInserts",
    "heap": "heap",
}
"""Names that Tomcat and the driver have for a key, whatever the pool."""
THREADS_DEFAULT = 200
CONNECTIONS_DEFAULT = 8192
PREPARE_THRESHOLD_DEFAULT = 5


class FrontSpec(SpecTable):
    """A web application on Tomcat, its pool of connections and its connector."""

    pool: FrontPoolName = Field("dbcp2", description="Pool of connections of the application")
    max_total: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most connections of the pool, and as many kept idle (default: the pool's own:"
        " 8, 100, 10)",
    )
    max_wait_ms: PositiveDuration | None = Field(
        None,
        alias="max_wait",
        description="Longest wait of a request for a connection (default: the pool's own: without"
        " limit, 30s, 30s)",
    )
    threads: int | None = Field(
        None, ge=1, le=10_000, description="Most threads of the connector (default: 200)"
    )
    connections: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Most connections of clients that the connector accepts; further ones wait in"
        " its listen queue (default: 8192)",
    )
    keepalive_requests: int = Field(
        -1,
        ge=-1,
        le=1_000_000_000,
        description="Requests after which a client's connection is closed; -1: never, unlike"
        " Tomcat's own default of 100",
    )
    prepare_threshold: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Executions from which on the driver keeps a statement prepared on the server"
        " (default: 5); 0 for never",
    )
    rewrite_batched_inserts: bool = Field(
        False,
        description="Let the driver make statements of several rows out of a batch of inserts",
    )
    heap: str = Field(
        "256m", pattern=r"^[1-9][0-9]{0,5}[mg]$", description="Most memory for objects, as 256m"
    )
    java: str | None = Field(
        None, description="Java to use, 17 or newer (default: that of JAVA_HOME, or of the PATH)"
    )

    @property
    def connections_max(self) -> int:
        """The most connections that it makes to the server."""
        return self.max_total or OWN_MAX[self.pool]

    @property
    def prepares_from(self) -> int:
        """Executions from which on the driver keeps a statement prepared; 0: never."""
        if self.prepare_threshold is None:
            return PREPARE_THRESHOLD_DEFAULT
        return self.prepare_threshold

    @property
    def threads_max(self) -> int:
        """The most requests that it works on at once."""
        return self.threads or THREADS_DEFAULT


def own_name(pool: str, key: str) -> str:
    """Return the name that the pool, Tomcat or the driver has for a key, as ``maxTotal``."""
    return OWN_NAMES.get(pool, {}).get(key) or CONNECTOR_NAMES.get(key, key)


def value_of(table: Fields, key: str) -> str | None:
    """Return the value of a key of a table ``front``: what it has, or what the pool, Tomcat or the
    driver then take by default; None if that is not known."""
    given = table.get(key)
    if given is None:
        given = _defaults(table.get("pool") or "dbcp2").get(key)
    if given is None:
        return None
    return str(given).lower() if isinstance(given, bool) else str(given)


def values_in_force(table: Fields | None) -> dict[str, str]:
    """Return the values of all keys of a table ``front`` by their dotted names; none without a
    front end."""
    if table is None:
        return {}
    keys = {*_defaults("dbcp2"), *table}
    return {f"front.{key}": value for key in keys if (value := value_of(table, key)) is not None}


def _defaults(pool: str) -> Mapping[str, str | int | bool]:
    wait_ms = OWN_WAITS_MS[pool]
    return {
        "pool": pool,
        "max_total": OWN_MAX[pool],
        "max_wait": wait_ms if wait_ms < 0 else format_duration(wait_ms),
        "threads": THREADS_DEFAULT,
        "connections": CONNECTIONS_DEFAULT,
        "prepare_threshold": PREPARE_THRESHOLD_DEFAULT,
        "keepalive_requests": FrontSpec.model_fields["keepalive_requests"].default,
        "heap": FrontSpec.model_fields["heap"].default,
        "rewrite_batched_inserts": FrontSpec.model_fields["rewrite_batched_inserts"].default,
    }


def in_words(spec: FrontSpec) -> str:
    """Describe the front end, such as ``Tomcat with Commons DBCP2 (maxTotal = 8)``."""
    size = f"{own_name(spec.pool, 'max_total')} = {spec.connections_max}"
    return f"Tomcat with {TITLES[spec.pool]} ({size})"
