"""Tables of the workloads: the same as pgbench makes, made once, and nobody else's touched."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Cluster, Installation
from pgdyno.spec import ScriptPart
from pgdyno.spec.model import WorkloadSpec
from pgdyno.workload import Workload, load_mix, prepare

pytestmark = pytest.mark.server

Run = Callable[..., list[tuple[Any, ...]]]

_CATALOGUE = """
select relname, reloptions::text, relpages > 0 and relallvisible > 0,
       (select array_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull
                         order by attnum)
          from pg_attribute where attrelid = c.oid and attnum > 0),
       (select array_agg(pg_get_indexdef(indexrelid)) from pg_index where indrelid = c.oid)
  from pg_class c where relname like 'pgbench%' and relkind = 'r' order by relname
"""
_CONTENT = """
select (select (count(*), sum(aid), sum(bid), sum(abalance), min(length(filler)))::text
          from pgbench_accounts),
       (select (count(*), sum(tid), sum(bid), sum(tbalance), count(filler))::text
          from pgbench_tellers),
       (select (count(*), sum(bid), sum(bbalance), count(filler))::text from pgbench_branches),
       (select count(*) from pgbench_history)
"""


def silent(what: str, done: int, total: int) -> None:
    """Looks away."""


def builtin(name: str) -> Workload:
    return load_mix(name)


@pytest.fixture(scope="module", params=[18, 15])
def pg(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Installation]
) -> Iterator[Cluster]:
    """Servers of this module's own, for it drops whatever is in the database."""
    with Cluster.create(installation_of(request.param), {}) as cluster:
        yield cluster


@pytest.fixture
def run(pg: Cluster) -> Iterator[Run]:
    """Runs SQL on the server under test; every table is gone afterwards."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:

        def execute(statement: str) -> list[tuple[Any, ...]]:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield execute
        conn.execute("drop schema public cascade; create schema public")


def test_tables_are_those_of_pgbench(pg: Cluster, run: Run) -> None:
    reports: list[tuple[str, int, int]] = []
    prepare(pg.conninfo, [builtin("tpcb-like")], 1, lambda *report: reports.append(report))
    ours = run(_CATALOGUE), run(_CONTENT)
    pgbench = pg.installation.program("pgbench")
    where = ["-h", pg.conninfo.host, "-p", str(pg.conninfo.port), "-U", pg.conninfo.user]
    subprocess.run(
        [str(pgbench), "-i", "-q", "-s", "1", *where, pg.conninfo.database],
        check=True,
        capture_output=True,
    )
    assert ours == (run(_CATALOGUE), run(_CONTENT))
    assert ("pgbench_accounts", 100_000, 100_000) in reports
    assert all(0 <= done <= total for _, done, total in reports)


def test_tables_of_the_same_scale_are_used_again(pg: Cluster, run: Run) -> None:
    prepare(pg.conninfo, [builtin("tpcb-like")], 1, silent)
    run("update pgbench_accounts set abalance = 7 where aid = 1")
    run("insert into pgbench_history values (1, 1, 1, 1, now())")
    prepare(pg.conninfo, [builtin("select-only")], 1, silent)
    assert run("select abalance from pgbench_accounts where aid = 1") == [(7,)]
    assert run("select count(*) from pgbench_history") == [(0,)]


@pytest.mark.parametrize(
    "damage",
    [
        "alter table pgbench_accounts drop constraint pgbench_accounts_pkey",
        "delete from pgbench_accounts where aid = 100000",
        "drop table pgbench_history",
        "insert into pgbench_branches values (2, 0)",
    ],
)
def test_other_scales_and_half_made_tables_are_made_afresh(
    pg: Cluster, run: Run, damage: str
) -> None:
    prepare(pg.conninfo, [builtin("tpcb-like")], 1, silent)
    run("update pgbench_accounts set abalance = 7 where aid = 1")
    run(damage)
    prepare(pg.conninfo, [builtin("tpcb-like")], 1, silent)
    assert run("select abalance from pgbench_accounts where aid = 1") == [(0,)]
    assert run("select count(*) from pgbench_accounts") == [(100_000,)]


def test_mixed_has_its_table_and_indexes_as_described(pg: Cluster, run: Run) -> None:
    workload = builtin("mixed")
    prepare(pg.conninfo, [workload], 1, silent)
    indexes = run("select indexdef from pg_indexes where tablename = 'test_table' order by 1")
    assert [row[0] for row in indexes] == [
        "CREATE INDEX by_c1 ON public.test_table USING btree (c1)",
        "CREATE INDEX by_c2 ON public.test_table USING btree (c2)",
        "CREATE INDEX by_c3 ON public.test_table USING btree (c3)",
        "CREATE UNIQUE INDEX by_id ON public.test_table USING btree (id)",
    ]
    spec = WorkloadSpec(script="mixed", variables={"scale": 5, "own": "x"})
    assert workload.variables(pg.conninfo, spec) == {"scale": "5", "own": "x", "maxid": "0"}
    run("insert into test_table (c1) select 'x' from generate_series(1, 3)")
    prepare(pg.conninfo, [workload], 1, silent)
    assert workload.variables(pg.conninfo, spec)["maxid"] == "3"


def test_mixed_leaves_a_foreign_table_alone(pg: Cluster, run: Run) -> None:
    run("create table test_table (id int, mine text)")
    with pytest.raises(SetupError, match="test_table in the database pgdyno is not pgdyno's"):
        prepare(pg.conninfo, [builtin("mixed")], 1, silent)
    assert run("select count(*) from test_table") == [(0,)]


@pytest.mark.parametrize("name", ["tpcb-like", "mixed"])
def test_no_tables_are_made_in_another_database(pg: Cluster, name: str) -> None:
    elsewhere = replace(pg.conninfo, database="postgres")
    with pytest.raises(UsageError, match="makes none in the database postgres"):
        prepare(elsewhere, [builtin(name)], 1, silent)


def test_a_role_without_rights_is_told_what_to_grant(pg: Cluster, run: Run) -> None:
    run("revoke create on schema public from public; create role poor login")
    try:
        poor = replace(pg.conninfo, user="poor")
        with pytest.raises(SetupError, match="permission denied for schema public") as caught:
            prepare(poor, [builtin("mixed")], 1, silent)
        assert "GRANT CREATE" in (caught.value.hint or "")
    finally:
        run("drop role poor")


def test_a_missing_table_is_named_with_its_script(pg: Cluster, run: Run, tmp_path: Path) -> None:
    good, bad, own = (tmp_path / name for name in ("good.sql", "bad.sql", "own.sql"))
    good.write_text("\\set id random(1, 10)\nselect * from there where id = :id;")
    bad.write_text("\\set id random(1, 10)\nselect * from gone where id = :id;")
    own.write_text("create temp table mine (id int);\ninsert into mine values (1);")
    run("create table there (id int)")
    spec = [ScriptPart(file=str(good)), ScriptPart(file=str(own))]
    prepare(pg.conninfo, [load_mix(spec)], 1, silent)
    spec = [ScriptPart(file=str(good)), ScriptPart(file=str(bad))]
    with pytest.raises(SetupError) as caught:
        prepare(pg.conninfo, [load_mix(spec)], 1, silent)
    assert caught.value.message == f"{bad}: the table gone is not in the database pgdyno"
