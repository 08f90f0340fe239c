"""The costliest statement: whose time it is, and the rows that it reads and returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, Load, written

from pgdyno.facts.costliest import costliest
from pgdyno.plans.tree import WHOLES
from pgdyno.trial.result import costliest_of

READS = "select count(*) from wide where b = ?"
WRITES = "update small set n = n + 1 where id = ?"
SCANS = {"public.wide": {"seq_scan": 400.0, "seq_tup_read": 4e7}}


def found_in(tmp_path: Path, load: Load) -> Any:
    with written(tmp_path, load) as run:
        return costliest(run, [each.id for each in run.slices()])


def test_of_a_load_of_pgdyno_its_own_times_count(tmp_path: Path) -> None:
    load = Load(tps=400, script_ms=((READS, 6.0), (WRITES, 2.0)), tables=SCANS)
    found = found_in(tmp_path, load)
    assert (found.statement, found.measure) == (READS, "clients")
    assert found.share == pytest.approx(0.75, rel=0.02)
    assert found.rows_read == pytest.approx(100_000, rel=0.02)
    assert found.rows_returned is None
    assert "pg_stat_statements" in found.sentence, "it says what would tell"


def test_rows_are_those_of_one_statement_or_not_known(tmp_path: Path) -> None:
    other = "select max(b) from wide"
    load = Load(tps=400, script_ms=((READS, 6.0), (other, 2.0)), tables=SCANS)
    found = found_in(tmp_path, load)
    assert (found.statement, found.rows_read) == (READS, None)
    assert "EXPLAIN (ANALYZE)" in found.sentence


def test_a_commit_has_no_rows(tmp_path: Path) -> None:
    found = found_in(tmp_path, Load(tps=400, script_ms=((WRITES, 2.0), ("end;", 6.0))))
    assert found.statement == "end;"
    assert "EXPLAIN" not in found.sentence


def test_sessions_that_were_seen_stand_in_for_times(tmp_path: Path) -> None:
    found = found_in(tmp_path, Load(statement=READS, sessions={CPU: 2.0}))
    assert (found.statement, found.measure, found.share) == (READS, "samples", 1.0)


def test_rows_returned_are_those_that_the_server_counts(tmp_path: Path) -> None:
    counted = {
        READS: {"calls": 400, "exec_ms": 2400.0, "rows": 400},
        WRITES: {"calls": 400, "exec_ms": 400.0, "rows": 400},
    }
    found = found_in(tmp_path, Load(tps=400, counted=counted, tables=SCANS))
    assert (found.statement, found.measure) == (READS, "server")
    assert found.share == pytest.approx(6 / 7)
    assert found.rows_read == pytest.approx(100_000, rel=0.15)
    assert found.rows_returned == 1.0


def executed(own_ms: float, trigger_ms: float) -> dict[str, Any]:
    scan = {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "wide",
            "Actual Rows": 9, "Actual Loops": 1, "Actual Total Time": own_ms}  # fmt: skip
    top = {"Node Type": "Limit", "Actual Rows": 3, "Actual Loops": 1,
           "Actual Total Time": own_ms + 0.5, "Plans": [scan]}  # fmt: skip
    trigger = {"Trigger Name": "audits", "Relation": "wide", "Time": trigger_ms, "Calls": 1}
    return {"Plan": top, "Triggers": [trigger], "Execution Time": 8.0}


def found_of(tmp_path: Path, plan: dict[str, Any]) -> Any:
    """Of a load of one statement that was executed with this plan."""
    row = {
        "client_group": "web",
        "script": "tpcb-like",
        "position": 0,
        "is_generic": 0,
        "is_analyzed": 1,
        "lack": "",
        "plan": json.dumps(plan),
    }
    rows = {"statement_plan": lambda second: [row] if second == 1 else []}
    return found_in(tmp_path, Load(tps=400, statements={READS: 400}, rows=rows))


@pytest.mark.parametrize(
    ("own_ms", "trigger_ms", "part"),
    [(6.0, 1.0, "Seq Scan on public.wide"), (2.0, 5.0, "trigger audits"), (2.0, 1.0, None)],
)
def test_the_plan_tells_where_the_time_of_an_execution_goes(
    tmp_path: Path, own_ms: float, trigger_ms: float, part: str | None
) -> None:
    found = found_of(tmp_path, executed(own_ms, trigger_ms))
    assert (found.part and found.part.name) == part
    if own_ms == 6.0:
        assert found.sentence.endswith(
            "75 % of one execution's 8 ms went into its Seq Scan on public.wide; it returns 3 rows"
        )


def test_scans_of_partitions_are_one_part_with_their_append(tmp_path: Path) -> None:
    scans = [
        {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": name, "Actual Rows": 1,
         "Actual Loops": 1, "Actual Total Time": 3.0}
        for name in ("wide_1", "wide_2")
    ]  # fmt: skip
    append = {"Node Type": "Append", "Actual Rows": 2, "Actual Loops": 1,
              "Actual Total Time": 6.5, "Plans": scans}  # fmt: skip
    wholes = {f"public.{name}": "public.wide" for name in ("wide_1", "wide_2")}
    found = found_of(tmp_path, {"Plan": append, "Execution Time": 8.0, WHOLES: wholes})
    assert (found.part.name, found.part.ms) == ("Seq Scan on public.wide", 6.5)


def test_where_nothing_was_seen_the_line_says_what_would_tell(tmp_path: Path) -> None:
    with written(tmp_path, Load(sessions={})) as run:
        found = costliest_of(run, [-1])
    assert (found.statement, found.share) == (None, None)
    assert "pg_stat_statements" in found.sentence
