"""How to reach a server: resolved connection values, and libpq's rules for finding them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

OWN_NAME = "pgdyno"
"""The superuser and the database of every cluster that pgdyno starts, and pgdyno's database
elsewhere."""

# What libpq and the load engine call alike.
_ENGINE_KEYS = (
    "channel_binding",
    "load_balance_hosts",
    "min_protocol_version",
    "options",
    "require_auth",
    "sslcert",
    "sslcertmode",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "target_session_attrs",
)
# What says which of several servers is taken: one that was taken is not chosen again.
_CHOOSING = ("load_balance_hosts", "target_session_attrs")
_OLD_TLS = ("TLSv1", "TLSv1.1")


@dataclass(frozen=True)
class Host:
    """One server of a list: its name or socket directory, its address if that is given."""

    host: str
    hostaddr: str | None
    port: int


@dataclass(frozen=True)
class ConnInfo:
    """Resolved connection values. ``host`` is a name, an address or a socket directory.

    ``options`` holds further libpq parameters by keyword (``sslmode``, ``options``, …). ``hosts``
    holds all servers where several are named; ``host`` is the one that was connected to.
    """

    host: str
    port: int
    user: str
    password: str | None = field(repr=False)
    database: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    hostaddr: str | None = None
    hosts: tuple[Host, ...] = ()
    database_named: bool = True
    """True if the user named the database; else it is what pgdyno takes by default."""
    version: int | None = None
    """The server's, as 180006, where it has answered already."""

    @property
    def is_socket(self) -> bool:
        """True if the server is reached through a Unix socket."""
        return self.host.startswith(("/", "@"))

    @property
    def uri_without_password(self) -> str:
        """A URI to show or to write down: never with the password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.is_socket:
            place = urlencode({"host": self.host, "port": self.port}, safe="/")
            return f"postgresql://{user}@/{database}?{place}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{user}@{host}:{self.port}/{database}"

    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments for ``psycopg.connect``: to this very server."""
        values: dict[str, Any] = {
            **{name: value for name, value in self.options.items() if name not in _CHOOSING},
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
        }
        values.setdefault("application_name", "pgdyno control")
        if self.hostaddr is not None:
            values["hostaddr"] = self.hostaddr
        if self.password is not None:
            values["password"] = self.password
        return values

    def client_conninfo(self, **more: str | int) -> str:
        """For PostgreSQL's own programs, as libpq reads it, whatever is in the values: host, port,
        user, and ``more``. Without the password."""
        from psycopg.conninfo import make_conninfo

        there: dict[str, str | int] = {"host": self.host, "port": self.port, "user": self.user}
        return make_conninfo("", **there | more)

    def engine_target(self) -> dict[str, Any]:
        """The ``target`` of a load's configuration: all the servers, with the password."""
        hosts = self.hosts or (Host(self.host, self.hostaddr, self.port),)
        target: dict[str, Any] = {
            "hosts": [asdict(host) for host in hosts],
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "application_name": "pgdyno",
        }
        target |= {name: self.options[name] for name in _ENGINE_KEYS if self.options.get(name)}
        if (newest := self.options.get("max_protocol_version")) is not None:
            target["max_protocol_version"] = "3.2" if newest == "latest" else newest
        if self.options.get("sslsni") == "0":
            target["sslsni"] = False
        # Older than what the engine speaks: no bound from below.
        if target.get("ssl_min_protocol_version") in _OLD_TLS:
            del target["ssl_min_protocol_version"]
        return target
