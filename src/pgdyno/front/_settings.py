"""Settings of a front end: its pool, its connector, and the properties file that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo
from pgdyno.spec.front import FrontPoolName, FrontSpec

POOLS: tuple[FrontPoolName, ...] = get_args(FrontPoolName)
_PASSED = ("sslmode", "sslrootcert", "options")
_WITHOUT_EFFECT = (
    *("client_encoding", "connect_timeout", "sslcertmode", "sslnegotiation", "sslcompression"),
    *(
        "sslsni",
        "gssdelegation",
        "krbsrvname",
        "ssl_min_protocol_version",
        "fallback_application_name",
    ),
    *(
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "application_name",
    ),
    *("max_protocol_version", "min_protocol_version", "load_balance_hosts"),
)
"""Parameters whose defaults are libpq's own business, or that a front end may do without."""


class FrontSettings(Struct, frozen=True):
    """Choices of a user about a front end; ``None`` is the default of the part itself."""

    pool: FrontPoolName = "dbcp2"
    max_total: int | None = None
    """The most connections of the pool, and as many that are kept."""
    max_wait_ms: int | None = None
    """Longest wait of a request for a connection; -1: without limit."""
    threads: int | None = None
    """The most threads of the connector."""
    connections: int | None = None
    """The most connections of clients that are accepted."""
    keepalive_requests: int | None = None
    """Requests after which a connection of a client is closed; -1: never."""
    port: int = 0
    """On loopback; 0: a free one."""
    prepare_threshold: int | None = None
    """Executions from which on the driver keeps a statement prepared; 0: never."""
    rewrite_batched_inserts: bool = False
    """True: the driver makes statements of several rows out of a batch of inserts."""
    heap: str = "256m"
    """Most memory for objects."""

    @classmethod
    def of(cls, spec: FrontSpec) -> FrontSettings:
        """Return the settings of a spec's front end."""
        return cls(
            pool=spec.pool,
            max_total=spec.max_total,
            max_wait_ms=spec.max_wait_ms,
            threads=spec.threads,
            connections=spec.connections,
            keepalive_requests=spec.keepalive_requests,
            prepare_threshold=spec.prepare_threshold,
            rewrite_batched_inserts=spec.rewrite_batched_inserts,
            heap=spec.heap,
        )

    def properties(self, server: ConnInfo) -> Mapping[str, str]:
        """Return the properties of an application that reaches ``server``. Raises SetupError."""
        return {
            **dict(_server_properties(server)),
            "pool.kind": self.pool,
            "port": str(self.port),
            **{
                name: str(value)
                for name, value in (
                    ("pool.max", self.max_total),
                    ("pool.wait_ms", self.max_wait_ms),
                    ("threads", self.threads),
                    ("connections", self.connections),
                    ("keepalive_requests", self.keepalive_requests),
                    ("prepare_threshold", self.prepare_threshold),
                    ("rewrite_batched_inserts", "true" if self.rewrite_batched_inserts else None),
                )
                if value is not None
            },
        }


def _server_properties(server: ConnInfo) -> Iterator[tuple[str, str]]:
    if server.is_socket:
        raise SetupError(
            f"the front end cannot use {server.uri_without_password}: its driver, pgjdbc, connects"
            " over TCP only",
            code="front-socket",
            hint="name the server's address, such as -h 127.0.0.1",
        )
    for name, value in server.options.items():
        if value and name not in (*_PASSED, *_WITHOUT_EFFECT) and value != "any":
            raise SetupError(
                f"{name}={value}: the front end does not pass this on to its driver, pgjdbc",
                code="front-parameter",
                hint=f"leave it out; it passes on {', '.join(_PASSED)}",
            )
    yield "host", server.hostaddr or server.host
    yield "database.port", str(server.port)
    yield "database", server.database
    yield "user", server.user
    if server.password is not None:
        yield "password", server.password
    for name in _PASSED:
        if given := server.options.get(name):
            yield name, given


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a properties file as Java reads it."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    """Return a value in which nothing has a meaning: every character that might is a code."""
    units = value.encode("utf-16-be")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}"
        for code in codes
    )
