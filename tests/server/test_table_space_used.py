"""What tables take is what was said before: measured on real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from pgdyno.server import Cluster, connect_plain
from pgdyno.server.connecting.control import Control
from pgdyno.spec.workload import InitSpec
from pgdyno.workload._found import find_pgbench
from pgdyno.workload._pgbench import Making
from pgdyno.workload.table_space import space_for_tables

pytestmark = pytest.mark.server
SCALE = 3


@pytest.fixture
def empty(pg: Cluster) -> Iterator[Control]:
    with connect_plain(pg.conninfo) as connection:
        connection.execute("create database room")
        with connect_plain(replace(pg.conninfo, database="room")) as inside:
            yield inside
        connection.execute("drop database room with (force)")


def test_the_estimate_covers_what_is_made_and_little_more(empty: Control) -> None:
    needed = space_for_tables(empty, SCALE, InitSpec(), ())
    assert (needed.freed_bytes, needed.location) == (0, None)
    before = _wal(empty)
    Making(empty, SCALE, InitSpec(), lambda *_: None).make()
    written = _wal(empty) - before
    found = find_pgbench(empty)
    again = space_for_tables(empty, SCALE, InitSpec(), found.values())
    assert 0.8 * needed.table_bytes < again.freed_bytes <= needed.table_bytes
    assert 0.7 * needed.wal_bytes < written < 1.3 * needed.wal_bytes


def _wal(connection: Control) -> float:
    row = connection.execute("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
    assert row is not None
    return float(row[0])
