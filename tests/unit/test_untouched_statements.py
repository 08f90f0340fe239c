"""Statements that never change a row: in the run file, and in words."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot
from record_samples import add_second, new_recorder, script_row

from pgdyno._engine import Histogram
from pgdyno.record import RunFile, StatementTotal
from pgdyno.report.words.accounts import untouched_words


def total(statement: str, done: int, untouched: int) -> StatementTotal:
    return StatementTotal("web", "own.sql", 0, statement, done, 0, Histogram(), None, untouched)


def test_only_what_never_changed_a_row_is_named() -> None:
    never = "update stock set n = n - 1 where item = :item and warehouse = :warehouse"
    totals = [
        total(never, 1_200, 1_200),
        total("delete from basket where id = :id", 1_200, 1_199),
        total("update rare set n = 1 where false", 9, 9),
        total("delete from log where false", 10, 10),
    ]
    assert untouched_words(totals) == snapshot(
        "the server changed no row in any execution of"
        " update stock set n = n - 1 where item = :item and warehouse… (1,200 times);"
        " delete from log where false (10 times)"
    )
    assert untouched_words(totals[1:3]) == ""


def statement(untouched: int) -> dict[str, object]:
    named = {"group": "web", "script": "own.sql", "position": 0, "statement": "update a"}
    counts = {"done": 20, "failed": 0, "untouched": untouched}
    return {**named, **counts, "service": Histogram().encode()}


def test_they_are_summed_over_intervals(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        for second, untouched in enumerate((20, 15)):
            scripts = [script_row(done=20, sent=20, intended=20)]
            add_second(recorder, second, scripts, statements=[statement(untouched)])
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert [(each.done, each.untouched) for each in run.statements()] == [(40, 35)]
