"""Wait events by the server's own list (pg_wait_events, from version 17 on)."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.diagnose.facts.waits import wait_class
from pgdyno.probe import waits
from pgdyno.report.wait_events import label
from pgdyno.server import Cluster

pytestmark = pytest.mark.server


def events_of(pg: Cluster) -> list[tuple[str, str]]:
    if pg.installation.major < 17:
        return []  # It has no such view.
    with psycopg.connect(**pg.conninfo.kwargs()) as conn:
        return conn.execute("select type, name from pg_wait_events").fetchall()


def test_each_event_of_a_buffer_is_that_of_a_page_and_has_a_meaning(pg: Cluster) -> None:
    found = [each for each in events_of(pg) if each[0] in ("Buffer", "BufferPin")]
    assert found or pg.installation.major < 17
    for kind, event in found:
        assert wait_class("active", kind, event) == "page"
        assert label(f"{kind}:{event}") != f"{kind}:{event}"


@pytest.mark.parametrize(
    ("first", "names"),
    [(17, waits.BUFFER_IO), (17, waits.WAL_FLUSH), (19, waits.WAIT_FOR_LSN),
     (19, waits.COMMIT_DELAY), (19, waits.COPY_FILES)],
)  # fmt: skip
def test_the_server_has_the_events_that_are_told_apart(
    pg: Cluster, first: int, names: frozenset[str]
) -> None:
    there = {waits.canonical(*each) for each in events_of(pg)}
    if pg.installation.major >= first:
        assert names <= there
    else:
        assert not names & there
