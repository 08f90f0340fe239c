"""Which layer refused a connection: PostgreSQL, or a pooler in front of it, by its own words.

All use SQLSTATE 53300 or 08P01, so only the message tells. The texts are those of PostgreSQL's
postinit.c and procarray.c, pgpool-II's child.c (with a capital letter) and PgBouncer's client.c;
what PgBouncer passes on of the server's refusal is the server's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from pgdyno.record import ErrorTotal

_CODES = ("53300", "08P01")
_TEXTS = {
    "sorry, too many clients already": ("PostgreSQL", "max_connections"),
    "remaining connection slots are reserved": (
        "PostgreSQL",
        "max_connections, less the reserved ones",
    ),
    "too many connections for role": ("PostgreSQL", "CONNECTION LIMIT of the role"),
    "too many connections for database": ("PostgreSQL", "CONNECTION LIMIT of the database"),
    "Sorry, too many clients already": ("pgpool-II", "num_init_children"),
    "no more connections allowed (max_db_client_connections)": (
        "PgBouncer",
        "max_db_client_connections",
    ),
    "no more connections allowed (max_user_client_connections)": (
        "PgBouncer",
        "max_user_client_connections",
    ),
    "no more connections allowed": ("PgBouncer", "max_client_conn"),
}
"""Part of a message → the layer that says so, and its limit; the first that fits."""


class RefusedConnections(Struct, frozen=True):
    """Connections that one layer refused because of one limit."""

    layer: str
    limit: str
    count: int = 0

    @property
    def is_of_server(self) -> bool:
        """True if the server itself refused."""
        return self.layer == "PostgreSQL"

    @property
    def words(self) -> str:
        """The layer with its limit."""
        return f"{self.layer} ({self.limit})"


def refusal_in(error: ErrorTotal) -> RefusedConnections | None:
    """Return who refused a connection, if that is the error."""
    if error.sqlstate not in _CODES:
        return None
    found = (
        RefusedConnections(*named, error.count)
        for text, named in _TEXTS.items()
        if text in error.message
    )
    return next(found, None)


def refusals_in(errors: Iterable[ErrorTotal]) -> list[RefusedConnections]:
    """Return the refusals of each layer and limit, the most frequent first."""
    counts = Counter[tuple[str, str]]()
    for error in errors:
        if (refusal := refusal_in(error)) is not None:
            counts[refusal.layer, refusal.limit] += refusal.count
    return [
        RefusedConnections(layer, limit, count) for (layer, limit), count in counts.most_common()
    ]
