"""Indexes that plans of a real server ask for: the server uses each of them once it is there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from pgdyno.plans.tree import Plan, read_plan
from pgdyno.plans.wanted_indexes import index_candidates
from pgdyno.server import Cluster
from pgdyno.spec.change import Change
from pgdyno.spec.index_text import separated, trial_statements

pytestmark = pytest.mark.server

TABLES = """
create table wanted_note (
    id bigint primary key, author int not null, "Email" varchar(80) not null, title text not null,
    body jsonb not null, tags text[] not null, during tsrange not null, at timestamp not null,
    handled_at timestamp, is_open bool not null);
insert into wanted_note
    select g, g % 10, 'user' || g || '@example.org', 'Title ' || g, jsonb_build_object('k', g),
           array['tag ' || g], tsrange(timestamp '2026-01-01' + g * interval '1 hour',
           timestamp '2026-01-01' + (g + 1) * interval '1 hour'),
           timestamp '2026-01-01' + g * 7919 % 20000 * interval '1 minute',
           case when g % 1000 <> 0 then timestamp '2026-01-02' end, g % 1000 = 0
      from generate_series(1, 20000) as g;
create index wanted_author on wanted_note (author);
create table wanted_part (id int not null, at timestamp not null) partition by range (id);
create table wanted_part_1 partition of wanted_part for values from (0) to (5000);
create table wanted_part_2 partition of wanted_part for values from (5000) to (20001);
insert into wanted_part select g, timestamp '2026-01-01' + g % 997 * interval '1 minute'
  from generate_series(1, 20000) as g;
"""


@pytest.fixture
def connection(pg: Cluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("begin")
        connection.execute(TABLES.encode())
        connection.execute("analyze wanted_note, wanted_part")
        yield connection
        connection.execute("rollback")


def planned(connection: psycopg.Connection, sql: str, options: str = "") -> Plan:
    row = connection.execute(f"explain ({options}verbose, format json) {sql}".encode()).fetchone()
    assert row is not None
    return read_plan(json.loads(json.dumps(row[0]))[0])


def create(connection: psycopg.Connection, table: str, text: str) -> None:
    for index in separated(text):
        for statement in trial_statements(table, index)[0]:
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("""where "Email" = 'user5@example.org'""", '"Email"'),
        ("""where lower("Email") = 'user5@example.org'""", 'using btree ((lower(("Email")::text)))'),
        ("where title like 'Title 77%'", "using btree (title text_pattern_ops)"),
        ("""where body @> '{"k": 5}'""", "using gin (body)"),
        ("where body ->> 'k' = '5'", "using btree ((body ->> 'k'::text))"),
        ("where tags @> array['tag 5']", "using gin (tags)"),
        ("where during @> timestamp '2026-01-03'", "using gist (during)"),
        ("where to_tsvector('simple', title) @@ to_tsquery('simple', '77')",
         "using gin ((to_tsvector('simple'::regconfig, title)))"),
        ("where handled_at is null", "handled_at"),
        ("where is_open", "is_open"),
        ("where at = timestamp '2026-01-03' and handled_at > timestamp '2026-01-01'",
         "at, handled_at"),
        ("where id = 5 or title = 'Title 77'", "title"),
        ("where at = timestamp '2026-01-03' or title = 'Title 77'", "at; title"),
        ("where title like '%tle 7777%'", "using gin (title gin_trgm_ops)"),
        ("where id < 5 or (title = 'Title 77' and handled_at is null)", "title"),
        ("order by at desc limit 5", "at"),
        ("order by at desc, id limit 5", "using btree (at DESC, id)"),
        ("where author = 5 order by at limit 3", "author, at"),
        ("where handled_at is null order by at limit 3 for update", "handled_at, at"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", ["", "analyze, "])
def test_an_index_that_is_wanted_is_used(
    connection: psycopg.Connection, condition: str, index: str, options: str
) -> None:
    statement = f"select * from wanted_note {condition}"
    before = planned(connection, statement, options)
    assert index_candidates(connection, [before]) == [Change(indexes={"public.wanted_note": index})]
    create(connection, "public.wanted_note", index)
    connection.execute("analyze wanted_note")
    after = planned(connection, statement)
    assert any(node.index.startswith("pgdyno_") for node in after.nodes())


@pytest.mark.parametrize(
    ("statement", "table", "index"),
    [
        ("select max(at) from wanted_note", "public.wanted_note", "at"),
        ("select min(at) from wanted_note where author = 5", "public.wanted_note", "author, at"),
        ("select * from wanted_part where at = timestamp '2026-01-01'", "public.wanted_part", "at"),
    ],
)
def test_an_index_for_what_is_no_single_scan(
    connection: psycopg.Connection, statement: str, table: str, index: str
) -> None:
    plan = planned(connection, statement, "analyze, ")
    plan = Plan(**{**{f: getattr(plan, f) for f in plan.__struct_fields__}, "wholes": WHOLES})
    assert index_candidates(connection, [plan]) == [Change(indexes={table: index})]
    create(connection, table, index)
    connection.execute("analyze wanted_note, wanted_part")
    assert any("pgdyno" in node.index or "_at_" in node.index
               for node in planned(connection, statement).nodes())  # fmt: skip


WHOLES = {
    "public.wanted_part_1": "public.wanted_part",
    "public.wanted_part_2": "public.wanted_part",
}


@pytest.mark.parametrize(
    "condition",
    [
        "where id = 5",
        "where id + 0 = 5",  # The index on id is there, and cannot be used.
        "where title <> 'x'",
        "where id = 5 or id = 7",
        "where id = 5 or title <> 'x'",
        "where at = timestamp '2026-01-03' or title <> 'x'",  # One alone is of no use.
        "where author <> all (select 7)",
        "order by at",
        "order by id limit 5",
        "order by random() limit 5",
        "where random() < 0.1",
    ],
)
def test_no_index_is_wanted(connection: psycopg.Connection, condition: str) -> None:
    plan = planned(connection, f"select * from wanted_note {condition}", "analyze, ")
    assert index_candidates(connection, [plan]) == []


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("where tags @> array['tag 5']", "using gin (tags)"),
        ("""where body @> '{"k": 5}'""", "using gin (body jsonb_path_ops)"),
        ("where during @> timestamp '2026-01-03'", "using gist (during)"),
    ],
)
def test_no_index_is_wanted_that_is_there_and_not_used(
    connection: psycopg.Connection, condition: str, index: str
) -> None:
    connection.execute(f"create index on wanted_note {index}".encode())
    connection.execute("set local enable_bitmapscan = off")
    connection.execute("set local enable_indexscan = off")
    plan = planned(connection, f"select * from wanted_note {condition}", "analyze, ")
    assert index_candidates(connection, [plan]) == []
