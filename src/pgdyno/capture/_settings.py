"""The settings of a source that matter to its load: those that are not the default there, or not
the default of the server here, on which the clone will run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgdyno.capture._queries import rows_of
from pgdyno.clone.settings import matters, value_in_words

if TYPE_CHECKING:
    import psycopg

_WAITS = (
    "commits wait for a standby on the source, and not on the clone: pgdyno run --standby on adds"
    " one"
)
_NOT_WAITING = ("off", "local")


class SourceSettings:
    """Settings by name, as read."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Read them. Raises psycopg.Error."""
        self._rows = {
            row["name"]: row for row in rows_of(connection, "settings") if matters(row["name"])
        }

    def beside(self, here: SourceSettings) -> dict[str, str]:
        """Return those that differ from the default there, or from that of the server ``here``."""
        found = {}
        for name, row in sorted(self._rows.items()):
            other = here._rows.get(name)
            same = other is None or (other["boot"], other["unit"]) == (row["boot"], row["unit"])
            if row["of_role"] is not None:
                found[name] = row["of_role"]
            elif row["is_of_this_role"]:
                continue
            # A default that the server has computed is computed by the other as well.
            elif not same if row["is_default"] else row["value"] != row["boot"] or not same:
                found[name] = value_in_words(row["value"], row["unit"])
        return found

    @property
    def gaps(self) -> list[str]:
        """A standby that commits wait for, which the clone has not."""
        row = self._rows["synchronous_commit"]
        waits = row["waits"] and (row["of_role"] or row["value"]) not in _NOT_WAITING
        return [_WAITS] if waits else []
