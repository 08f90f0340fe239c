"""Recursive queries: those that end on the rows of a clone are executed there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import WATCHER, as_client, capture_of, likeness_of, source_with
from patience import beside
from pgdyno.capture._renaming import renamed
from pgdyno.report.words.capture import capture_text
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server]

SECONDS = 2.0
SCHEMA = """
create extension pg_stat_statements;
create role watcher login password 'hush' in role pg_monitor;
create table kinds (
    id bigint primary key, parent_id bigint references kinds, name text not null
);
create table states (id bigint primary key, room bigint not null);
create table state_edges (
    state_id bigint not null references states, prev_state_id bigint not null references states,
    primary key (state_id, prev_state_id)
);
create table links (here bigint not null, there bigint not null);
insert into kinds select i, nullif(i / 3, 0), 'x' from generate_series(1, 300) i;
insert into states select i, i % 5 from generate_series(1, 200) i;
insert into state_edges select i, i - i % 7 - 1 from generate_series(8, 200) i;
insert into links select i % 50, (i + 1) % 50 from generate_series(1, 100) i;
vacuum analyze;
"""
BELOW = """
with recursive below as (
    select id, parent_id, 0 as depth from kinds where id = %s
    union all
    select k.id, k.parent_id, depth + 1 from kinds k join below b on k.parent_id = b.id
) select max(depth) from below
"""
BEFORE = """
with recursive before (id) as (
    values (%s::bigint)
    union all
    select prev_state_id from state_edges e, before b where b.id = e.state_id
) select room from states where id in (select id from before)
"""
REACHED = """
with recursive reached (place) as (
    select here from links where here = %s
    union
    select there from links join reached on here = place
) select count(*) from reached
"""
ROUND = """
with recursive round (place, depth) as (
    select here, 0 as depth from links where here = %s
    union all
    select there, depth + 1 from links join round on here = place where depth < 3
) select count(*) from round
"""
MOVE = "update kinds set parent_id = %s where id = %s"
EDGE = """
insert into state_edges (prev_state_id, state_id) values (%s, %s) on conflict do nothing
"""


def load(cluster: Cluster) -> AbstractContextManager[None]:
    """A session that goes over trees and other graphs, and changes them."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        values = as_client(cluster.conninfo)
        with psycopg.connect(**values, autocommit=True) as conn:
            number = 0
            while not ended.wait(0.002):
                number += 1
                id_ = number % 190 + 2
                for each in (BELOW, BEFORE, REACHED, ROUND):
                    conn.execute(each.encode(), (id_,))
                conn.execute(MOVE, (max(1, id_ // 3), id_ + 90))
                conn.execute(EDGE.encode(), (id_ // 2, id_))
                begun.set()

    return beside(work)


def test_recursive_queries_that_end_are_executed(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = source_with(new_cluster, SCHEMA)
    path = tmp_path / "trees.pgdyno"
    with load(cluster):
        found = capture_of(cluster.conninfo, path, SECONDS, **WATCHER)
    assert {each.name: each.path for each in found.tables if each.path} == {
        "kinds": ("id", "parent_id"),
        "state_edges": ("state_id", "prev_state_id"),
    }
    shown = capture_text(found)
    assert "  recursive queries go from row to row by id and parent_id" in shown
    texts = " ".join(each.text.lower() for each in found.statements)
    assert texts.count("with recursive") == 3
    assert "with recursive round" not in texts
    (gap,) = (each for each in found.gaps if "recursive" in each)
    assert gap.startswith("1 recursive query is left out")
    (before,) = (each for each in found.statements if "before" in each.text)
    assert [(each.table, each.column) for each in before.parameters] == [
        ("public.state_edges", "state_id")
    ]

    other = renamed(found)
    assert len(other.statements) == len(found.statements)
    assert sum(bool(each.path) for each in other.tables) == 2

    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
