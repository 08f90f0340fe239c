"""Wait events by the server's own list (pg_wait_events, from version 17 on)."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.report.session_waits import label
from pgdyno.server import Cluster
from pgdyno.wait_events import EVENTS, wait_class

pytestmark = pytest.mark.server


def events_of(pg: Cluster) -> set[tuple[str, str]]:
    if pg.installation.major < 17:
        return set()  # It has no such view.
    with psycopg.connect(**pg.conninfo.kwargs()) as conn:
        return set(conn.execute("select type, name from pg_wait_events"))


def test_each_event_of_a_buffer_is_that_of_a_page_and_has_a_meaning(pg: Cluster) -> None:
    found = [each for each in events_of(pg) if each[0] in ("Buffer", "BufferPin")]
    assert found or pg.installation.major < 17
    for kind, event in found:
        assert wait_class("active", kind, event) == "page"
        assert label(f"{kind}:{event}") != f"{kind}:{event}"


def test_the_server_has_those_events_of_the_table_that_are_of_its_version(pg: Cluster) -> None:
    major = pg.installation.major
    claimed = {(each.type, each.name) for each in EVENTS if each.first <= major <= each.last}
    there = events_of(pg) & {(each.type, each.name) for each in EVENTS}
    assert there == claimed or major < 17
