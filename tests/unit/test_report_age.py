"""A server of an old age, on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import pytest
import report_runs
from inline_snapshot import snapshot
from report_runs import Level
from result_samples import age_period, age_result

from pgdyno.errors import RunError
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.results.age import AgeResult
from pgdyno.scenario.age import check_kept, sentence_of

LEVEL = Level(tps=900, service_ms=4, pool_wait_ms=0)


def run_with(path: Path, result: AgeResult | None) -> RunFile:
    """A run file with a period at an age, and the result."""
    return report_runs.run_of_slice(path, result, "age", "age", {})


def test_an_old_server_on_the_terminal(tmp_path: Path) -> None:
    text = report_runs.text_of(run_with(tmp_path / "run.db", age_result()), 98)
    assert text == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

period            seconds  tps  p99 ms  refused  forced vacuums  failsafe  warnings
before               10.0  900    20.0        0               0         0         0
at that age          10.0  900    20.0    5,000             326       326         4
recovery             10.0  900    20.0      300             326       326         0

The oldest transaction ID was 11 old

age         the oldest transaction ID: 11 before, 2,146,008,372 after 0.32 s, in which the server
            was stopped and started
statements  at that age, 800 that read and 0 others were done; 5,000 transactions were refused an
            ID
failsafe    652 vacuums of tables went on without cost delay and without indexes, of the load's:
            public.test_table
recovery    age below 200,000,000 after 2.4 s, 760 at the end; it assigned IDs again after 1.9 s;
            by autovacuum alone, with autovacuum_naptime = 1s
rows        all 10 are there, 3 of them inserted under load, in 1 table; of 1 tables it is not
            known
pg_amcheck  pg_amcheck found nothing\
""")


def test_an_old_server_on_the_page_and_as_rows(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", age_result())
    page = render(run)
    assert "Periods under load" in page
    assert "public.test_table" in page
    assert [(row["period"], row["refused"]) for row in result_rows(run)] == [
        ("before", 0), ("at that age", 5000), ("recovery", 300),
    ]  # fmt: skip


def test_a_run_that_did_not_end_has_a_summary(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None)
    assert "verdict" in report_runs.text_of(run, 200)
    assert "Old age" not in render(run)


def test_the_answer_names_refusals_recovery_and_rows() -> None:
    said = fill(sentence_of(age_result()), 98)
    assert said == snapshot("""\
the oldest transaction ID was 11 old and, 0.3 s later, 2,146,008,372; all writes were refused, and
800 reads were done; 326 vacuums of tables to prevent wraparound ended, all of them under the
failsafe; once the pin was removed, writes were accepted again after 1.9 s, and autovacuum lowered
the age to 760 within 2.4 s; all 10 rows are there (1 table is not known), and pg_amcheck found
nothing\
""")


def test_the_answer_of_a_server_that_does_not_recover() -> None:
    recovery = {"below": 200_000_000, "age": 2_146_100_000, "seconds": None,
                "writes_seconds": None, "period": age_period(seconds=120.0)}  # fmt: skip
    said = fill(sentence_of(age_result(recovery=recovery)), 98)
    assert said == snapshot("""\
the oldest transaction ID was 11 old and, 0.3 s later, 2,146,008,372; all writes were refused, and
800 reads were done; 326 vacuums of tables to prevent wraparound ended, all of them under the
failsafe; not recovered: 120 s after the pin was removed the age is 2,146,100,000; all 10 rows are
there (1 table is not known), and pg_amcheck found nothing\
""")


def test_the_answer_of_lost_rows() -> None:
    table = {"table": "public.t", "before": 7, "inserted": 3, "after": 9, "complete": False}
    result = age_result(tables=[table], recovery=None)
    assert sentence_of(result).endswith("nothing to recover from; damaged: public.t")


def test_rows_that_do_not_add_up_end_the_command() -> None:
    fields = age_result().to_json()
    check_kept(AgeResult.model_validate(fields))
    fields["tables"][0]["complete"] = False
    with pytest.raises(RunError, match=r"rows of public\.test_table do not add up"):
        check_kept(AgeResult.model_validate(fields))
    fields["tables"][0]["complete"] = True
    fields["checks"][0]["passed"] = False
    with pytest.raises(RunError, match="pg_amcheck failed"):
        check_kept(AgeResult.model_validate(fields))
