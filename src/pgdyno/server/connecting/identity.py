"""Which server it is: told by the server itself, whatever address led there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pgdyno.server.queries import query

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True)
class Identity:
    """A server, as one that is reached by a socket and one reached by TCP have it alike."""

    system_identifier: str
    """Made by initdb; copies of a cluster share it."""
    port: int
    data_directory: str | None
    """``None`` when it is hidden from the role."""
    started: str
    """The start of the postmaster, in seconds since 1970."""

    def to_json(self) -> dict[str, Any]:
        """For an undo record."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Identity:
        """From an undo record."""
        return cls(
            system_identifier=str(fields["system_identifier"]),
            port=int(fields["port"]),
            data_directory=fields["data_directory"],
            started=str(fields["started"]),
        )

    def is_same(self, other: Identity) -> bool:
        """True if both are one server, restarted meanwhile or not.

        A copy that runs elsewhere with the same port and directory cannot be told apart here; the
        mark on the server does that (see undo.py).
        """
        if self.system_identifier != other.system_identifier:
            return False
        directories = {self.data_directory, other.data_directory} - {None}
        alike = self.port == other.port and len(directories) <= 1
        return self.started == other.started or alike


def identity_of(conn: psycopg.Connection) -> Identity:
    """The identity of the server that answers on ``conn``."""
    row = conn.execute(query("server_identity")).fetchone()
    assert row is not None
    return Identity(*row)
