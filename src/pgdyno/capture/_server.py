"""The server of a capture as it is apart from its load: tables, functions, settings, and the values
of its statistics, which no capture may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgdyno.capture._catalogue import Catalogue
from pgdyno.capture._functions import Functions
from pgdyno.capture._queries import rows_of
from pgdyno.capture._scanning import VALUE_CHARACTERS_MIN
from pgdyno.capture._settings import SourceSettings

if TYPE_CHECKING:
    import psycopg


class SourceServer:
    """A server, read before its load is watched: it may end meanwhile."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Read it. Raises psycopg.Error."""
        self.major = connection.info.server_version // 10_000
        self.catalogue = Catalogue(connection)
        self.functions = Functions(connection, self.catalogue.ids, self.catalogue.known)
        self.settings = SourceSettings(connection)
        made = {*self.catalogue.known.labels.values()}
        wanted = {"tables": self.catalogue.ids, "characters": VALUE_CHARACTERS_MIN}
        found = (row["value"] for row in rows_of(connection, "values", wanted))
        self.values = [each for each in found if each not in made]
