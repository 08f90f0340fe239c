"""Tables of the workloads: the same as pgbench makes, made once, and nobody else's touched."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from psycopg.conninfo import make_conninfo

from pgdyno.conduct import Silent, initialise
from pgdyno.errors import SetupError, UsageError
from pgdyno.probe.space import DiskSpace, sample_space
from pgdyno.server import Cluster, Installation, connect_plain
from pgdyno.server.connecting.marks import UNFINISHED
from pgdyno.spec import ScriptPart, spec_from_fields
from pgdyno.spec.workload import InitSpec, WorkloadSpec
from pgdyno.workload import Tables, WeightedScript, Workload, load_mix, own_database_needed, prepare
from pgdyno.workload._found import PGBENCH_COLUMNS
from pgdyno.workload._statement_check import check_statements

pytestmark = [pytest.mark.server, pytest.mark.alike]

Run = Callable[..., list[tuple[Any, ...]]]

_CATALOGUE = """
select relname, relkind, relpersistence, reloptions::text, relpages > 0 and relallvisible > 0,
       pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid),
       (select spcname from pg_tablespace s where s.oid = c.reltablespace),
       (select array_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull
                         order by attnum)
          from pg_attribute where attrelid = c.oid and attnum > 0),
       (select array_agg(pg_get_indexdef(indexrelid)) from pg_index where indrelid = c.oid),
       (select array_agg(conname || ' ' || pg_get_constraintdef(k.oid) order by conname)
          from pg_constraint k where conrelid = c.oid)
  from pg_class c where relname like 'pgbench%' and relkind in ('r', 'p') order by relname
"""
_CONTENT = """
select (select (count(*), sum(aid), sum(bid), sum(abalance), min(length(filler)))::text
          from pgbench_accounts),
       (select (count(*), sum(tid), sum(bid), sum(tbalance), count(filler))::text
          from pgbench_tellers),
       (select (count(*), sum(bid), sum(bbalance), count(filler))::text from pgbench_branches),
       (select count(*) from pgbench_history)
"""


SCALE_1 = WorkloadSpec(scale=1)


def silent(what: str, done: int, total: int) -> None:
    """Looks away."""


def builtin(name: str) -> Workload:
    return load_mix(name)


@pytest.fixture(scope="module", params=[18, 15])
def pg(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Installation]
) -> Iterator[Cluster]:
    """Servers of this module's own, for it drops whatever is in the database."""
    # Autovacuum would set figures of tables that tests compare.
    with Cluster.create(installation_of(request.param), {"autovacuum": "off"}) as cluster:
        yield cluster


@pytest.fixture
def run(pg: Cluster) -> Iterator[Run]:
    """Runs SQL on the server under test; every table is gone afterwards."""
    with connect_plain(pg.conninfo) as conn:

        def execute(statement: str) -> list[tuple[Any, ...]]:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield execute
        conn.execute("drop schema public cascade; create schema public")


_WAYS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "default": ([], {}),
    "by the server": (["-I", "dt G v p", "-F", "80"], {"steps": "dt G v p", "fillfactor": 80}),
    "range": (
        ["--partitions", "3", "--foreign-keys", "-F", "70"],
        {"partitions": 3, "foreign_keys": True, "fillfactor": 70},
    ),
    "hash": (
        ["--partitions", "2", "--partition-method", "hash", "--unlogged-tables"],
        {"partitions": 2, "partition_method": "hash", "unlogged_tables": True},
    ),
    "elsewhere": (
        ["--tablespace", "a b", "--index-tablespace", "a b", "-I", "dtgp"],
        {"tablespace": "a b", "index_tablespace": "a b", "steps": "dtgp"},
    ),
}


@pytest.fixture(scope="module")
def pgbench18(installation_of: Callable[[int], Installation]) -> str:
    return str(installation_of(18).binary("pgbench"))


@pytest.mark.parametrize(("options", "init"), _WAYS.values(), ids=_WAYS)
def test_tables_are_those_of_pgbench(
    pg: Cluster, run: Run, pgbench18: str, options: list[str], init: dict[str, Any]
) -> None:
    reports: list[tuple[str, int, int]] = []
    if "tablespace" in init:
        run("set allow_in_place_tablespaces = on")
        run("""create tablespace "a b" location ''""")
    try:
        wanted = WorkloadSpec(scale=1, init=InitSpec(**init), initialize=True)
        prepare(pg.conninfo, [], wanted, lambda *report: reports.append(report))
        ours = run(_CATALOGUE), run(_CONTENT)
        where = ["-h", pg.conninfo.host, "-p", str(pg.conninfo.port), "-U", pg.conninfo.user]
        subprocess.run(
            [pgbench18, "-i", "-q", *options, *where, pg.conninfo.database],
            check=True,
            capture_output=True,
            env={**os.environ, "PGPASSWORD": pg.conninfo.password or ""},
        )
        assert ours == (run(_CATALOGUE), run(_CONTENT))
    finally:
        if "tablespace" in init:
            run("drop schema public cascade; create schema public")
            run('drop tablespace "a b"')
    assert "G" in init.get("steps", "") or ("pgbench_accounts", 100_000, 100_000) in reports
    assert all(0 <= done <= total for _, done, total in reports)


def test_an_initialisation_drops_what_is_pgbenchs_and_nothing_else(pg: Cluster, run: Run) -> None:
    wanted = WorkloadSpec(scale=1, initialize=True)
    run("create table mine (id int)")
    run("create table pgbench_history (id int, mine text)")
    with pytest.raises(SetupError) as caught:
        prepare(pg.conninfo, [], wanted, silent)
    assert caught.value.message == snapshot(
        "public.pgbench_history in the database pgdyno is not a table of pgbench, and -i would"
        " drop it"
    )
    run("drop table pgbench_history")
    _make_small_tables(run, scale=3)
    run("revoke create on schema public from public; create role owner login")
    run("alter table pgbench_accounts owner to owner; grant usage on schema public to owner")
    for table in ("branches", "history", "tellers"):
        run(f"alter table pgbench_{table} owner to owner")
    try:
        with pytest.raises(SetupError, match="permission denied for schema public"):
            prepare(replace(pg.conninfo, user="owner"), [], wanted, silent)
        # What may not be made again is not dropped.
        assert run("select count(*) from pgbench_branches") == [(3,)]
        assert prepare(pg.conninfo, [], wanted, silent).tables == "made"
        assert run("select count(*) from pgbench_branches") == [(1,)]
        assert run("select count(*) from mine") == [(0,)]
    finally:
        run("drop owned by owner; drop role owner")


def test_our_tables_of_the_same_scale_are_used_again(pg: Cluster, run: Run) -> None:
    assert prepare(pg.conninfo, [builtin("tpcb-like")], SCALE_1, silent).tables == "made"
    run("update pgbench_accounts set abalance = 7 where aid = 1")
    run("insert into pgbench_history values (1, 1, 1, 1, now())")
    assert prepare(pg.conninfo, [builtin("select-only")], SCALE_1, silent).tables == "kept"
    assert run("select abalance from pgbench_accounts where aid = 1") == [(7,)]
    assert run("select count(*) from pgbench_history") == [(0,)]


def test_larger_tables_of_ours_will_do_where_no_scale_is_said(pg: Cluster, run: Run) -> None:
    prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(scale=2), silent)
    run("update pgbench_accounts set abalance = 7 where aid = 1")
    unsaid = prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent)
    assert (unsaid.tables, unsaid.scale) == ("kept", 2)
    assert run("select abalance from pgbench_accounts where aid = 1") == [(7,)]
    said = prepare(pg.conninfo, [builtin("tpcb-like")], SCALE_1, silent)
    assert (said.tables, said.scale) == ("made", 1)


_OTHER = {
    "unfinished": f"comment on table pgbench_tellers is '{UNFINISHED}'",
    "another scale": "comment on table pgbench_accounts is"
    " 'made by pgdyno at scale 2; pgdyno cleanup removes it'",
    "incomplete": "drop table pgbench_history",
}


@pytest.mark.parametrize("damage", _OTHER.values(), ids=_OTHER)
def test_our_tables_of_another_kind_or_half_made_are_made_afresh(
    pg: Cluster, run: Run, damage: str
) -> None:
    prepare(pg.conninfo, [builtin("tpcb-like")], SCALE_1, silent)
    run("update pgbench_accounts set abalance = 7 where aid = 1")
    run(damage)
    assert prepare(pg.conninfo, [builtin("tpcb-like")], SCALE_1, silent).tables == "made"
    assert run("select abalance from pgbench_accounts where aid = 1") == [(0,)]
    assert run("select count(*) from pgbench_accounts") == [(100_000,)]


def test_tables_of_others_are_used_as_they_are(pg: Cluster, run: Run) -> None:
    """In our own database too: at their own scale, their history kept, nothing vacuumed."""
    _make_small_tables(run, scale=2)
    run("insert into pgbench_history values (1, 1, 1, 1, now())")
    before = run(_STORED)
    prepared = prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(scale=3), silent)
    assert (prepared.tables, prepared.scale) == ("theirs", 2)
    assert prepared.notes[0] == snapshot(
        "the tables in the database pgdyno have scale 2, which is used; -s 3 is ignored"
    )
    assert run(_STORED) == before
    # A scale that nobody asked for is no reason to warn.
    notes = prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent).notes
    assert notes == snapshot(
        ["pgbench_accounts ends at 200, not 200,000 as at scale 2: rows are missing"]
    )


_STORED = """
select (select array_agg((relname, relfilenode, reltuples)::text order by relname)
          from pg_class where relname like 'pgbench%'),
       (select count(*) from pgbench_history)
"""


def _make_small_tables(run: Run, scale: int) -> None:
    """pgbench's tables with a thousandth of their accounts, made by someone else."""
    run(
        "create table pgbench_branches (bid int primary key, bbalance int, filler char(88));"
        "create table pgbench_tellers"
        " (tid int primary key, bid int, tbalance int, filler char(84));"
        "create table pgbench_accounts"
        " (aid int primary key, bid int, abalance int, filler char(84));"
        "create table pgbench_history"
        " (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));"
        f"insert into pgbench_branches select generate_series(1, {scale}), 0;"
        f"insert into pgbench_tellers select t, (t - 1) / 10 + 1, 0"
        f" from generate_series(1, {scale * 10}) t;"
        f"insert into pgbench_accounts select a, (a - 1) / 100 + 1, 0"
        f" from generate_series(1, {scale * 100}) a"
    )


_ODD = {
    "a view": (
        "alter table pgbench_accounts rename to accounts;"
        "create view pgbench_accounts as select * from accounts",
        "public.pgbench_accounts is a view, and is used as it is",
    ),
    "without a key": (
        "alter table pgbench_tellers drop constraint pgbench_tellers_pkey",
        "no primary key: pgbench_tellers; statements read the whole table",
    ),
}


def test_tables_of_others_in_our_database_are_not_taken_for_ours(pg: Cluster, run: Run) -> None:
    _make_small_tables(run, scale=2)
    unnamed = replace(pg.conninfo, database_named=False)
    with pytest.raises(SetupError, match="that pgdyno did not make"):
        prepare(unnamed, [builtin("tpcb-like")], WorkloadSpec(), silent)
    assert prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent).tables == "theirs"


@pytest.mark.parametrize(("change", "note"), _ODD.values(), ids=_ODD)
def test_notes_about_tables(pg: Cluster, run: Run, change: str, note: str) -> None:
    _make_small_tables(run, scale=1)
    run(change)
    prepared = prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent)
    assert prepared.notes == [note]


_UNUSABLE = {
    "drop table pgbench_history": "the database pgdyno has pgbench_accounts, pgbench_branches,"
    " pgbench_tellers, but not pgbench_history",
    f"comment on table pgbench_history is '{UNFINISHED}'": "pgbench's tables in the database pgdyno"
    " are incomplete: pgdyno was stopped while it made them",
    "truncate pgbench_branches": "pgbench_branches in the database pgdyno is empty, so the scale"
    " is not known",
}


@pytest.mark.parametrize(
    ("change", "message"), _UNUSABLE.items(), ids=["incomplete", "unfinished", "empty"]
)
def test_tables_of_others_that_cannot_be_used_are_left_as_they_are(
    pg: Cluster, run: Run, change: str, message: str
) -> None:
    _make_small_tables(run, scale=1)
    run(change)
    before = run("select relname, relfilenode from pg_class where relname like 'pgbench%'")
    with pytest.raises(SetupError) as caught:
        prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent)
    assert caught.value.message == message
    assert caught.value.hint == snapshot(
        "-i drops and makes all four of pgbench's tables there, as pgbench -i does"
    )
    after = run("select relname, relfilenode from pg_class where relname like 'pgbench%'")
    assert after == before


def test_tables_along_the_search_path_are_found(pg: Cluster, run: Run) -> None:
    run("create schema bench; set search_path = bench")
    _make_small_tables(run, scale=3)
    run("alter role pgdyno in database pgdyno set search_path = bench")
    try:
        prepared = prepare(pg.conninfo, [builtin("tpcb-like")], WorkloadSpec(), silent)
        assert (prepared.tables, prepared.scale) == ("theirs", 3)
    finally:
        run("alter role pgdyno in database pgdyno reset search_path")
        run("reset search_path; drop schema bench cascade")


def test_a_table_locked_by_another_is_named_with_its_holder(
    pg: Cluster, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set-up does not wait for it without end."""
    monkeypatch.setattr("pgdyno.workload.table_locks.WAIT_S", 0.2)
    monkeypatch.setattr("pgdyno.workload.table_locks._LOCK_TIMEOUT", "200ms")
    _make_small_tables(run, scale=1)
    (tmp_path / "own.sql").write_text("update pgbench_tellers set tbalance = 0;")
    own = load_mix([ScriptPart(file=str(tmp_path / "own.sql"))])
    run("begin")
    run("lock table pgbench_branches, pgbench_tellers in access exclusive mode")
    [(pid,)] = run("select pg_backend_pid()")
    for setting_up in (
        lambda: prepare(pg.conninfo, [builtin("tpcb-like")], SCALE_1, silent),
        lambda: check_statements(pg.conninfo, own.scripts, "prepared"),
    ):
        with pytest.raises(SetupError) as caught:
            setting_up()
        assert caught.value.code == "table-locked"
        assert str(pid) in caught.value.message.split()
        assert f"pg_terminate_backend({pid})" in (caught.value.hint or "")
    assert "public.pgbench_tellers" in caught.value.message.split()
    run("rollback")
    check_statements(pg.conninfo, own.scripts, "prepared")


def test_tables_that_the_search_path_hides_are_named_with_the_way_to_them(
    pg: Cluster, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "own.sql").write_text("select 1 from pgbench_branches;")
    own = load_mix([ScriptPart(file=str(tmp_path / "own.sql"))])
    run("create database hiding")
    hiding = replace(pg.conninfo, database="hiding", user="looks")
    with psycopg.connect(**hiding.kwargs() | {"user": pg.conninfo.user}, autocommit=True) as conn:
        conn.execute("create role looks login; create schema app; set search_path = app")
        for name in PGBENCH_COLUMNS:
            conn.execute(f"create table {name} (aid int)".encode())
        try:
            looks = [
                lambda: own_database_needed(hiding, [builtin("tpcb-like")], WorkloadSpec()),
                lambda: check_statements(hiding, own.scripts, "prepared"),
            ]
            for look, grant in itertools.product(looks, [False, True]):
                with pytest.raises(SetupError) as caught:
                    look()
                said = caught.value.message
                assert {"app", "hiding"} <= {*said.replace(",", "").replace(":", "").split()}
                assert '"$user", public' in said
                assert ("USAGE" in said) is not grant
                hint = caught.value.hint or ""
                assert hint.endswith(
                    "looks SET search_path = app; or PGOPTIONS='-c search_path=app'"
                )
                assert ("GRANT USAGE ON SCHEMA app TO looks" in hint) is not grant
                conn.execute(f"{'revoke' if grant else 'grant'} usage on schema app"
                             f" {'from' if grant else 'to'} looks".encode())  # fmt: skip
        finally:
            conn.execute("drop schema app cascade; drop role looks")
    run("drop database hiding")


def test_two_runs_do_not_remake_each_others_tables(
    pg: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.workload.table_locks._LOCK_TIMEOUT", "200ms")
    workloads = [builtin("tpcb-like")]
    with ExitStack() as first:
        prepare(pg.conninfo, workloads, SCALE_1, silent, hold=first)
        run("insert into pgbench_history values (1, 1, 1, 1, now())")
        with ExitStack() as second:
            prepared = prepare(pg.conninfo, workloads, SCALE_1, silent, hold=second)
            assert prepared.notes == snapshot(
                ["another pgdyno uses the same tables, in the database pgdyno"]
            )
            assert run("select count(*) from pgbench_history") == [(1,)]
        with ExitStack() as second, pytest.raises(SetupError) as caught:
            prepare(pg.conninfo, workloads, WorkloadSpec(scale=2), silent, hold=second)
        assert caught.value.message == snapshot(
            "another pgdyno is using the tables in the database pgdyno"
        )
        assert run("select count(*) from pgbench_branches") == [(1,)]
    with ExitStack() as alone:
        made = prepare(pg.conninfo, workloads, WorkloadSpec(scale=2), silent, hold=alone)
        assert (made.tables, made.scale) == ("made", 2)


def test_mixed_has_its_table_and_indexes_as_described(pg: Cluster, run: Run) -> None:
    workload = builtin("mixed")
    prepare(pg.conninfo, [workload], SCALE_1, silent)
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
    prepare(pg.conninfo, [workload], SCALE_1, silent)
    assert workload.variables(pg.conninfo, spec)["maxid"] == "3"


def test_foreign_keys_of_tables_that_the_load_fills_are_looked_up_by_index(
    pg: Cluster, run: Run
) -> None:
    prepare(pg.conninfo, [builtin("business")], SCALE_1, silent)
    assert run("select count(*) from business_orders where id = 1") == [(0,)]
    analyzed = run("select relname, reltuples > 0 from pg_class where relname ~ '^business.*s$'")
    assert dict(analyzed) == {
        "business_customers": True,
        "business_events": False,
        "business_order_lines": False,
        "business_orders": False,
        "business_payments": False,
        "business_positions": True,
        "business_products": True,
    }
    run("prepare look(bigint) as select from business_orders where id = $1 for key share")
    run("set plan_cache_mode = force_generic_plan")
    plan = "\n".join(line for (line,) in run("explain execute look(1)"))
    assert "Index Scan using business_orders_pkey" in plan


def test_mixed_leaves_a_foreign_table_alone(pg: Cluster, run: Run) -> None:
    run("create table test_table (id int, mine text)")
    with pytest.raises(
        SetupError, match="test_table in the database pgdyno is a table with other columns"
    ):
        prepare(pg.conninfo, [builtin("mixed")], SCALE_1, silent)
    assert run("select count(*) from test_table") == [(0,)]


def test_tables_are_made_in_our_own_database_unless_asked(pg: Cluster, run: Run) -> None:
    named = replace(pg.conninfo, database="postgres")
    unnamed = replace(named, database_named=False)
    both = [builtin("tpcb-like"), builtin("mixed")]
    for workload in both:
        assert own_database_needed(named, [workload], WorkloadSpec())
        assert own_database_needed(unnamed, [workload], WorkloadSpec(initialize=True))
        assert not own_database_needed(named, [workload], WorkloadSpec(initialize=True))
    assert own_database_needed(named, [], WorkloadSpec(setup="setup.sql"))
    with connect_plain(named) as conn:

        def there(statement: str) -> list[tuple[Any, ...]]:
            conn.execute(statement.encode())
            return []

        _make_small_tables(there, scale=1)
        try:
            assert not own_database_needed(named, [both[0]], WorkloadSpec())
            assert own_database_needed(unnamed, [both[0]], WorkloadSpec())
            assert own_database_needed(named, both, WorkloadSpec())
        finally:
            there("drop table pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")


@pytest.mark.parametrize(
    "text",
    [
        "select 1 from pgbench_branches;",
        "-- as pgbench_accounts\nselect 1;",
        "select 1 from shop.pgbench_accounts;",
    ],
)
def test_own_scripts_stay_in_the_named_database(pg: Cluster, tmp_path: Path, text: str) -> None:
    (tmp_path / "own.sql").write_text(text)
    own = load_mix([ScriptPart(file=str(tmp_path / "own.sql"))])
    assert (own.tables is Tables.PGBENCH) == ("from pgbench" in text)
    named = replace(pg.conninfo, database="postgres")
    assert not own_database_needed(named, [own], WorkloadSpec())
    if own.tables is Tables.PGBENCH:
        with pytest.raises(SetupError) as caught:
            prepare(named, [own], WorkloadSpec(), silent)
        assert caught.value.hint == snapshot("-i makes pgbench's tables there")


@pytest.mark.parametrize(
    ("rights", "message"),
    [
        ("grant usage", "permission denied for schema public"),
        ("revoke usage", "no schema has been selected to create in"),
    ],
)
def test_a_role_without_rights_is_told_what_to_grant(
    pg: Cluster, run: Run, rights: str, message: str
) -> None:
    to_or_from = "to" if rights.startswith("grant") else "from"
    run(f"{rights} on schema public {to_or_from} public; create role poor login")
    try:
        poor = replace(pg.conninfo, user="poor")
        with pytest.raises(SetupError, match=message) as caught:
            prepare(poor, [builtin("mixed")], SCALE_1, silent)
        assert "CREATE ON SCHEMA public" in (caught.value.hint or "")
    finally:
        run("drop role poor")


def test_a_missing_table_is_named_with_its_script(pg: Cluster, run: Run, tmp_path: Path) -> None:
    good, bad, own = (tmp_path / name for name in ("good.sql", "bad.sql", "own.sql"))
    good.write_text("\\set id random(1, 10)\nselect * from there where id = :id;")
    bad.write_text("\\set id random(1, 10)\nselect * from gone where id = :id;")
    own.write_text("create temp table mine (id int);\ninsert into mine values (1);")
    run("create table there (id int)")
    spec = [ScriptPart(file=str(good)), ScriptPart(file=str(own))]
    notes = prepare(pg.conninfo, [load_mix(spec)], SCALE_1, silent).notes
    assert [str(own) in note for note in notes] == [True]
    spec = [ScriptPart(file=str(good)), ScriptPart(file=str(bad))]
    with pytest.raises(SetupError) as caught:
        prepare(pg.conninfo, [load_mix(spec)], SCALE_1, silent)
    place = f"{bad}:2:15: "
    assert caught.value.code == "missing-table"
    assert caught.value.message.startswith(place)
    assert "gone" in caught.value.message.split()


REFUSED = (
    ("select 1;\nselct 2;", "42601", 2, 1),
    ("select id,\n       nme\n  from there;", "42703", 2, 8),
    ("\\set id 1\nselect * from there where id = :id and nofun(:id);", "42883", 2, 40),
    ("select 'a'::int4;", "22P02", 1, 8),
    ("select id + 'b'::text from there;", "42883", 1, 11),
)


@pytest.mark.parametrize(("text", "sqlstate", "line", "column"), REFUSED)
@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_statements_that_are_refused_each_time_are_told_before_the_load(
    pg: Cluster, run: Run, text: str, sqlstate: str, line: int, column: int, protocol: str
) -> None:
    run("create table there (id int)")
    script = WeightedScript("s", text, "s.sql", 1, own=True)
    if sqlstate != "22P02" and not (protocol == "simple" and ":id" in text):
        with pytest.raises(UsageError) as caught:
            check_statements(pg.conninfo, [script, script], protocol)
        assert caught.value.code == "statement-refused"
        places = [each.split(": ")[0] for each in caught.value.message.splitlines()]
        assert places == [f"s.sql:{line}:{column}"] * 2
    at = text.split("\n")
    at.insert(line - 1 if sqlstate != "42703" else 0, f"\\expect {sqlstate}")
    expecting = replace(script, text="\n".join(at))
    assert check_statements(pg.conninfo, [expecting], protocol) is None


def test_statements_that_are_refused_may_fail_in_the_load(pg: Cluster, run: Run) -> None:
    run("create table there (id int)")
    scripts = [
        WeightedScript(name, text, f"{name}.sql", 1, own=True)
        for name, text in (("a", "select nme from there;"), ("b", "select 1;\nselect * from gone;"))
    ]
    note = check_statements(pg.conninfo, scripts, "prepared", stops=False)
    assert note is not None
    assert note.splitlines() == [
        "the server refuses statements, and the transactions with them fail:",
        'a.sql:1:8: column "nme" does not exist',
        'b.sql:2:15: relation "gone" does not exist',
    ]
    assert check_statements(pg.conninfo, [], "prepared", stops=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "\\set t random(1, 2)\nselect * from there limit :t;",
        "\\set n random(1, 2)\nselect now() - interval ':n days';",
        "create temp table mine (id int);\ninsert into mine values (1);",
        "select 1 as id into temp mine;\nselect nme from mine;",
        "set search_path = elsewhere;\nselect * from gone;",
        "insert into there values (:rows)\n\\rows 3 :row",
        "copy there from stdin \\rows 3 :row",
        "begin \\; select 1 \\; commit;",
        "\\expect 42P01 or success\nselect * from gone;",
        "begin;\nupdate there set id = 1 where id = 2;\nend;",
    ],
)
def test_what_may_succeed_is_not_refused(pg: Cluster, run: Run, text: str) -> None:
    run("create table there (id int)")
    script = WeightedScript("s", text, "s.sql", 1, own=True)
    for protocol in ("simple", "extended", "prepared"):
        check_statements(pg.conninfo, [script], protocol)


def test_text_that_is_inserted_is_left_to_the_run(pg: Cluster, run: Run) -> None:
    run("create table there (id int)")
    text = "\\set t 1\nselect * from :t;"
    script = WeightedScript("s", text, "s.sql", 1, own=True)
    check_statements(pg.conninfo, [script], "simple")
    with pytest.raises(UsageError):
        check_statements(pg.conninfo, [script], "extended")


def test_an_initialisation_that_does_not_fit_drops_nothing(
    pg: Cluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_small_tables(run, scale=3)

    def small(data_dir: Path) -> list[DiskSpace]:
        return [replace(disk, free_bytes=100 << 20) for disk in sample_space(data_dir)]

    monkeypatch.setattr("pgdyno.conduct._machine.sample_space", small)
    conninfo = make_conninfo(pg.conninfo.uri_without_password, password=pg.conninfo.password)
    server = {"kind": "existing", "conninfo": conninfo}
    workload = {"scale": 20, "initialize": True}
    with pytest.raises(SetupError, match="tables at scale 20 need about"):
        initialise(spec_from_fields({"server": server, "workload": workload}), Silent())
    assert run("select count(*) from pgbench_branches") == [(3,)]


def test_a_run_that_does_not_begin_leaves_no_database_behind(
    new_cluster: Callable[..., Cluster],
) -> None:
    superuser = new_cluster(18).conninfo.kwargs() | {"dbname": "postgres"}
    with psycopg.connect(**superuser, autocommit=True) as conn:
        conn.execute("drop database pgdyno")
        conn.execute("create role maker login createdb; alter role maker set search_path = gone")
        uri = make_conninfo(host=superuser["host"], port=superuser["port"], user="maker")
        spec = spec_from_fields(
            {
                "server": {"kind": "existing", "conninfo": uri},
                "workload": {"initialize": True, "scale": 1},
            }
        )
        asked = "select count(*) from pg_database where datname = 'pgdyno'"
        with pytest.raises(SetupError, match="no schema has been selected") as caught:
            initialise(spec, Silent())
        assert "RESET search_path" in (caught.value.hint or "")
        assert conn.execute(asked).fetchone() == (0,)
        conn.execute("alter role maker reset search_path")
        initialise(spec, Silent())
        assert conn.execute(asked).fetchone() == (1,)
