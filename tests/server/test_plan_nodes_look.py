"""Spilled sorts, parallel workers and wrong estimates in the plans of loads on servers of pgdyno's:
what is tried against them, and what is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_runs import diagnosed, of

from pgdyno.record import RunFile
from pgdyno.spec import Change

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

ITEMS = """
create table item (id int primary key, total int, note text) with (parallel_workers = 2);
insert into item select i, i % 100, repeat('x', 100) from generate_series(1, {rows}) i;
create function thought_dear(n int) returns bool language plpgsql immutable parallel safe
  cost 10000 as $$ begin return n = 5; end $$;
analyze item;
"""
WITHOUT = Change(settings={"max_parallel_workers_per_gather": "0"})


def test_workers_for_little_work(tmp_path: Path) -> None:
    script = "select count(*) from item where thought_dear(total);\n"
    cause = of(diagnosed(tmp_path, script, ITEMS.format(rows=500)), "parallel-workers")
    assert cause.status == "found"
    assert [each.change for each in cause.proposals] == [WITHOUT]


def test_no_workers(tmp_path: Path) -> None:
    script = "\\set k random(1, 500)\nselect total from item where id = :k;\n"
    found = diagnosed(tmp_path, script, ITEMS.format(rows=500))
    for name in ("parallel-workers", "temp-files", "wrong-estimates"):
        assert of(found, name).status == "cleared", name


def test_a_sort_on_disk(tmp_path: Path) -> None:
    script = (
        "select count(*) from (select note, id from item order by total, note offset 0) as x;\n"
    )
    diagnosed(tmp_path, script, ITEMS.format(rows=5000), settings={"work_mem": "64kB"})
    with RunFile(tmp_path / "run.db") as run:
        changes = {each.change for each in run.statement_trials()}
    assert '{"settings": {"work_mem": "2MB"}}' in changes


GUESSED = """
create table flag (id int primary key, a int, b int, c int) with (autovacuum_enabled = off);
create table mark (k int primary key, note text) with (autovacuum_enabled = off);
insert into flag select i, 1, 1, 1 from generate_series(1, 10000) i;
insert into mark select i, repeat('x', 60) from generate_series(1, 10000) i;
{more}
"""
JOIN = (
    "select count(*) from flag join mark on mark.k = flag.id\n"
    " where flag.a = 1 and flag.b = 1 and flag.c = 1;\n"
)


@pytest.mark.parametrize(("more", "status"), [("", "found"), ("analyze flag, mark;", "cleared")])
def test_a_plan_that_turns_on_estimates(tmp_path: Path, more: str, status: str) -> None:
    cause = of(diagnosed(tmp_path, JOIN, GUESSED.format(more=more)), "wrong-estimates")
    assert cause.status == status
    if status == "found":
        assert "ANALYZE public.flag" in cause.commands


COPIED = "copy counted from program 'seq 1 20000' with (freeze);"
INSERTED = "insert into counted select i from generate_series(1, 20000) i;"


@pytest.mark.parametrize(("filled", "status"), [(INSERTED, "found"), (COPIED, "cleared")])
def test_index_only_scans_that_fetch(tmp_path: Path, filled: str, status: str) -> None:
    table = "create table counted (id int primary key) with (autovacuum_enabled = off);"
    setup = f"{table}\n{filled}\nanalyze counted;\n"
    off = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
    script = "select count(*) from counted where id < 15000;\n"
    found = diagnosed(tmp_path, script, setup, settings=off)
    assert of(found, "heap-fetches").status == status


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("select total from item order by id offset 15000 limit 10;\n", "found"),
        ("select total from item where id > 15000 order by id limit 10;\n", "cleared"),
        ("select total from item order by note, id offset 5 limit 10;\n", "cleared"),
    ],
    ids=["pages", "keys", "sort"],
)
def test_rows_that_are_skipped(tmp_path: Path, script: str, status: str) -> None:
    cause = of(diagnosed(tmp_path, script, ITEMS.format(rows=20_000)), "skipped-rows")
    assert cause.status == status
    if status == "found":
        assert {each.name: each.value for each in cause.evidence}["rows skipped"] == 15_000


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (["note, a", "md5(note)", "lower(note), a", "a, note"], "found"),
        ([], "cleared"),
    ],
)
def test_indexes_that_no_scan_reads(tmp_path: Path, more: list[str], wanted: str) -> None:
    setup = "create table written (id serial primary key, a int, note text);\n" + "".join(
        f'create index "Index {number}" on written ({columns});\n'
        for number, columns in enumerate(more)
    )
    script = "insert into written (a, note) select i, 'note ' || i from generate_series(1, 50) i;\n"
    found = diagnosed(tmp_path, script, setup, settings={"synchronous_commit": "off"})
    cause = of(found, "unused-indexes")
    assert cause.status == wanted
    drops = [f'DROP INDEX CONCURRENTLY public."Index {number}"' for number in range(len(more))]
    assert [*cause.commands] == drops


LONG_LIST = """
create table told (id serial primary key, words int[]);
create index told_words on told using gin (words) with (gin_pending_list_limit = 32768);
insert into told (words) select array[i % 500, i % 7000] from generate_series(1, 30000) i;
{more}
"""


@pytest.mark.parametrize(
    ("more", "is_found"),
    [("", True), ("select gin_clean_pending_list('told_words');", False)],
)
def test_a_long_list_of_pending_entries(tmp_path: Path, more: str, is_found: bool) -> None:
    script = "\\set k random(1, 6999)\nselect count(*) from told where words @> array[:k::int];\n"
    setup = LONG_LIST.format(more=more)
    off = {"autovacuum": "off", "enable_seqscan": "off"}
    cause = of(diagnosed(tmp_path, script, setup, settings=off), "pending-list")
    assert cause.was_found == is_found, cause.sentence


EMPTIED = """
create table "Small table" (id int primary key, n int, note text) with (autovacuum_enabled = off);
insert into "Small table" select i, i % 10, repeat('x', 60) from generate_series(1, 200000) i;
delete from "Small table" where id {range};
"""


@pytest.mark.parametrize(("deleted", "status"), [("> 100", "found"), ("> 190000", "cleared")])
def test_a_table_that_is_mostly_empty(tmp_path: Path, deleted: str, status: str) -> None:
    script = 'select count(*) from "Small table" where n = 5;\n'
    found = diagnosed(tmp_path, script, EMPTIED.format(range=deleted))
    cause = of(found, "bloated-table")
    assert cause.status == status
    if status == "found":
        assert cause.commands == ('VACUUM FULL public."Small table"',)
