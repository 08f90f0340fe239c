"""How to reach a server: resolved connection values, and libpq's rules for finding them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode


@dataclass(frozen=True)
class ConnInfo:
    """Resolved connection values. ``host`` is a name, an address or a socket directory.

    ``options`` holds further libpq parameters by keyword (``sslmode``, ``options``, …).
    """

    host: str
    port: int
    user: str
    password: str | None = field(repr=False)
    database: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_socket(self) -> bool:
        """Whether the server is reached through a Unix socket."""
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
        """Keyword arguments for ``psycopg.connect``."""
        values: dict[str, Any] = {
            **self.options,
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
        }
        values.setdefault("application_name", "pgdyno control")
        if self.password is not None:
            values["password"] = self.password
        return values
