"""The identity of a server, as the server reports it, independent of the address used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from pgdyno.json_types import Json
from pgdyno.server.sql_files import query

if TYPE_CHECKING:
    import psycopg


class Identity(Struct, frozen=True):
    """The identity of one server; the same over a Unix socket and over TCP."""

    system_identifier: str
    """Assigned by initdb; copies of a cluster share it."""
    port: int
    data_directory: str | None
    """``None`` when it is hidden from the role."""
    started: str
    """Start time of the postmaster, in seconds since 1970."""

    def to_json(self) -> dict[str, object]:
        """Return the fields for an undo record."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Json) -> Identity:
        """Return the identity in an undo record."""
        return cls(
            system_identifier=str(fields["system_identifier"]),
            port=int(fields["port"]),
            data_directory=fields["data_directory"],
            started=str(fields["started"]),
        )

    def is_same(self, other: Identity) -> bool:
        """True if both are the same server, even if it was restarted in between.

        A copy that runs elsewhere with the same port and directory is not distinguished here; the
        mark on the server does that (see _undo.py).
        """
        if self.system_identifier != other.system_identifier:
            return False
        directories = {self.data_directory, other.data_directory} - {None}
        alike = self.port == other.port and len(directories) <= 1
        return self.started == other.started or alike


def identity_of(conn: psycopg.Connection) -> Identity:
    """Return the identity of the server that answers on ``conn``."""
    row = conn.execute(query("server", "server_identity")).fetchone()
    assert row is not None
    return Identity(*row)
