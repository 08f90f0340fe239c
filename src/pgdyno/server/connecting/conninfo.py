"""Resolved connection values of a server, and their forms for psycopg, libpq and the engine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, cast
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from msgspec.structs import asdict

from pgdyno.server.connecting._hosts import CHOOSING

OWN_NAME = "pgdyno"
"""The superuser and the database of every cluster that pgdyno starts, and pgdyno's database
elsewhere."""

# Parameters with the same name in libpq and the load engine.
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
_OLD_TLS = ("TLSv1", "TLSv1.1")


def as_option(name: str, value: str) -> str:
    """Return a setting as libpq's ``options`` has it."""
    escaped = re.sub(r"([\\\s])", r"\\\1", value)
    return f"-c {name}={escaped}"


def path_option(schemas: Iterable[str]) -> str:
    """Return libpq's option for a search_path of these schemas, which may be none. A list of names
    in a setting has double quotes as SQL has, and no Unicode escapes."""
    listed = ", ".join('"' + each.replace('"', '""') + '"' for each in schemas)
    return as_option("search_path", listed or '""')


class Host(Struct, frozen=True):
    """A server of a list."""

    host: str
    """Name or socket directory."""
    hostaddr: str | None
    """Address, if given."""
    port: int


class HostTarget(TypedDict):
    """A server of the engine's ``target``."""

    host: str
    hostaddr: str | None
    port: int


class EngineTarget(TypedDict, total=False):
    """The ``target`` of the engine's configuration; further keys are named as in libpq."""

    hosts: list[HostTarget]
    user: str
    password: str | None
    database: str
    application_name: str
    client_encoding: str
    max_protocol_version: str
    ssl_min_protocol_version: str
    sslmode: str
    sslsni: bool


class ConnInfo(Struct, frozen=True):
    """Resolved connection values. ``host`` is a name, an address or a socket directory.

    ``options`` holds further libpq parameters by keyword (``sslmode``, ``options``, …). ``hosts``
    holds all servers where several are named; ``host`` is the one that was connected to.
    """

    host: str
    port: int
    user: str
    password: str | None
    database: str
    options: Mapping[str, str] = field(default_factory=dict)
    hostaddr: str | None = None
    hosts: tuple[Host, ...] = ()
    database_named: bool = True
    """True if the user named the database, false for pgdyno's default."""
    version: int | None = None
    """The server's version, such as 180006, once known."""
    server_encoding: str | None = None
    """Encoding of the database, once known."""
    encrypted: bool = False
    """True if libpq's connection to it was encrypted."""

    def __repr__(self) -> str:
        """Return no password, which would stand in a traceback."""
        return f"ConnInfo({self.uri_without_password})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("uri", self.uri_without_password)]

    @property
    def is_socket(self) -> bool:
        """True if the server is reached through a Unix socket."""
        return self.host.startswith(("/", "@"))

    @property
    def uri_without_password(self) -> str:
        """A URI for messages and records, without the password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.is_socket:
            parameters = urlencode({"host": self.host, "port": self.port}, safe="/")
            return f"postgresql://{user}@/{database}?{parameters}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{user}@{host}:{self.port}/{database}"

    def kwargs(self) -> dict[str, Any]:
        """Return keyword arguments for ``psycopg.connect`` to this server."""
        values: dict[str, Any] = {
            **{name: value for name, value in self.options.items() if name not in CHOOSING},
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
            "target_session_attrs": "any",  # It is chosen already; the environment may say more.
        }
        values.setdefault("application_name", "pgdyno control")
        if "client_encoding" in values:
            values["client_encoding"] = "utf8"  # The given one is the load's.
        if self.hostaddr is not None:
            values["hostaddr"] = self.hostaddr
        if self.password is not None:
            values["password"] = self.password
        return values

    def client_conninfo(self, **more: str | int) -> str:
        """Return a conninfo string for PostgreSQL's binaries: host, port, user and ``more``.

        It does not contain the password.
        """
        from psycopg.conninfo import make_conninfo

        values: dict[str, str | int] = {"host": self.host, "port": self.port, "user": self.user}
        return make_conninfo("", **values | more)

    def engine_target(self) -> EngineTarget:
        """Return the ``target`` of the engine's configuration: all servers, with the password."""
        hosts = self.hosts or (Host(self.host, self.hostaddr, self.port),)
        options = {name: self.options[name] for name in _ENGINE_KEYS if self.options.get(name)}
        target: EngineTarget = {
            "hosts": [cast("HostTarget", asdict(host)) for host in hosts],
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "application_name": "pgdyno",
            **cast("EngineTarget", options),
        }
        if self.encrypted and not self.hosts and options.get("sslmode", "prefer") == "prefer":
            # A server that libpq connects to by TLS is not to be had unencrypted instead, where the
            # engine's TLS lacks what OpenSSL has.
            target["sslmode"] = "require"
        if (encoding := self._session_encoding()) is not None:
            target["client_encoding"] = encoding
        if (newest := self.options.get("max_protocol_version")) is not None:
            target["max_protocol_version"] = "3.2" if newest == "latest" else newest
        if self.options.get("sslsni") == "0":
            target["sslsni"] = False
        # Older than the engine's oldest version: no lower bound.
        if target.get("ssl_min_protocol_version") in _OLD_TLS:
            del target["ssl_min_protocol_version"]
        return target

    def _session_encoding(self) -> str | None:
        """Return the encoding of the load's sessions; None for UTF8, empty if ``options`` sets it.

        SQL_ASCII has no conversion: stored bytes may be valid in no encoding.
        """
        named = self.options.get("client_encoding")
        if named and named != "auto":
            return named
        if "client_encoding" in self.options.get("options", ""):
            return ""
        return "SQL_ASCII" if self.server_encoding == "SQL_ASCII" else None
