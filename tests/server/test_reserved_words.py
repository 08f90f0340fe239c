"""Names are quoted where a server would read them as words of its own."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.server import Cluster
from pgdyno.spec.sql_text import RESERVED, columns_text, quoted

pytestmark = pytest.mark.server
_AFTER_15 = {"system_user"}


def test_reserved_words_are_the_server_s(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs()) as connection:
        rows = connection.execute("select word from pg_get_keywords() where catcode in ('R', 'T')")
        words = {word for (word,) in rows}
        later = set() if connection.info.server_version >= 160_000 else _AFTER_15
    assert words | later == RESERVED


@pytest.mark.parametrize("name", ["order", "Order", "plain", "with space", 'quo"te', "select"])
def test_quoted_names_are_read_as_they_are_stored(pg: Cluster, name: str) -> None:
    with psycopg.connect(**pg.conninfo.kwargs()) as connection:
        table = quoted(name)
        connection.execute(f"create temp table {table} ({columns_text([name])} int)".encode())
        connection.execute(f"create index on {table} ({columns_text([name])})".encode())
        row = connection.execute("select relname from pg_class where relname = %s", [name])
        assert row.fetchone() == (name,)
