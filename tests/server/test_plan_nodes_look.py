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
