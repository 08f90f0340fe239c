"""Statements as the server counted them: differences, shapes and groups, and what a file keeps."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from record_samples import at, new_recorder

from pgdyno.probe.statements import COUNTS, KEPT, OTHERS, Rise, by_shape, risen
from pgdyno.record import RunFile
from pgdyno.record._rollup import HOUR_MS, roll_up
from pgdyno.record.events import STATEMENTS, note_missing
from pgdyno.report.words.statements import sentences, short_rows, tables
from pgdyno.spec.sql_text import beginning
from pgdyno.trial._parts import statements_of

INSERT = "insert into item (a, b) values ($1, $2)"
LONGER = "insert into item (a, b) values ($1, $2), ($3, $4)"
ASKED = {"name": "sample", "server": {"statements": True}}


def counts(calls: int, exec_ms: float, **given: float | None) -> Rise:
    return {**dict.fromkeys(COUNTS), "rows": 0, "wal_bytes": 0, "blocks_read": 0,
            "temp_blocks": 0, "calls": calls, "exec_ms": exec_ms, **given}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INSERT, "insert into item (a, b) values ($1, $2"),
        (LONGER, "insert into item (a, b) values ($1, $2"),
        ("select $1", "select $1"),
        ("select a2 from t where b = $12", "select a2 from t where b = $12"),
        ("commit", "commit"),
    ],
)
def test_statements_are_grouped_by_what_is_before_their_second_parameter(
    text: str, expected: str
) -> None:
    assert beginning(text) == expected


def test_what_was_executed_between_two_readings_is_their_difference() -> None:
    before = {"1": counts(10, 5.0, jit_ms=1.0), "2": counts(3, 1.0), "3": counts(9, 9.0)}
    after = {
        "1": counts(15, 8.0, jit_ms=1.5),
        "2": counts(3, 1.0),  # not executed
        "3": counts(2, 0.5),  # thrown out, or reset, and made again
        "4": counts(1, 0.25),
    }
    rises = risen(before, after)
    assert {key: (rise["calls"], rise["exec_ms"]) for key, rise in rises.items()} == {
        "1": (5, 3.0),
        "3": (2, 0.5),
        "4": (1, 0.25),
    }
    assert rises["1"]["jit_ms"] == 0.5
    assert rises["4"]["jit_ms"] is None, "not counted is not nothing"


def test_an_entry_that_begins_later_was_made_again() -> None:
    before = {"1": {**counts(3, 1.0), "since": 100.0}, "2": {**counts(3, 1.0), "since": 100.0}}
    after = {"1": {**counts(7, 2.0), "since": 200.0}, "2": {**counts(7, 2.0), "since": None}}
    rises = risen(before, after)
    assert [rises[key]["calls"] for key in "12"] == [7, 4]
    assert "since" not in rises["1"]


def test_shapes_are_summed_and_what_takes_little_time_is_kept_as_a_sum() -> None:
    rises = {str(n): counts(1, float(n), plan_ms=1.0) for n in range(KEPT + 20)}
    rises |= {"own": counts(7, 1e6), "again": counts(5, 2000.0), "gone": counts(4, 3.0)}
    shapes = {key: f"select {key}" for key in rises} | {"own": ""}
    shapes |= {"again": f"select {KEPT + 19}"}
    del shapes["gone"]
    found = dict(by_shape(rises, shapes))
    assert len(found) == KEPT + 1
    assert found[f"select {KEPT + 19}"]["calls"] == 6
    assert found[OTHERS]["calls"] == 20 + 4
    total = sum(rise["exec_ms"] or 0 for key, rise in rises.items() if key != "own")
    assert sum(rise["exec_ms"] or 0 for rise in found.values()) == total


def recorded(tmp_path: Path, *seconds: dict[str, dict[str, Any]], **given: Any) -> RunFile:
    """A run file with one slice, and each second's counts by shape."""
    path = tmp_path / "run.db"
    with new_recorder(path, **{"spec": ASKED, **given}) as recorder:
        slice_id = recorder.open_slice("run")
        for second, shapes in enumerate(seconds):
            rows = [
                {**row, "statement_id": recorder.statement_id(text), "duration_ms": 1000.0}
                for text, row in shapes.items()
            ]
            recorder.add_rows("statement_count", rows, ns=at(recorder, second))
        detail = {"probe": STATEMENTS, "count": 2}
        recorder.add_event("probe", "thrown out", detail)
        recorder.close_slice(slice_id)
        recorder.finish("done")
    return RunFile(path)


def test_the_digest_has_groups_and_shapes(tmp_path: Path) -> None:
    second = {
        INSERT: counts(10, 20.0, wal_bytes=1000, blocks_dirtied=7, read_ms=1.0, write_ms=0.5),
        LONGER: counts(5, 30.0, wal_bytes=3000, blocks_dirtied=3, read_ms=0.0, write_ms=0.0),
        "commit": counts(15, 75.0),
    }
    with recorded(tmp_path, second, second) as run:
        found = statements_of(run, [1])
    assert found is not None
    assert found.absent is None
    assert (found.exec_ms, found.evictions) == (250.0, 2)
    assert [(each.text, each.shapes, each.share) for each in found.groups] == [
        ("commit", 1, 0.6),
        (beginning(INSERT), 2, 0.4),
    ]
    first = found.groups[1]
    assert (first.calls, first.exec_ms, first.wal_bytes) == (30, 100.0, 8000)
    assert (first.blocks_dirtied, first.read_ms, first.jit_ms) == (20, 2.0, None)
    assert [each.text for each in found.shapes] == ["commit", LONGER, INSERT]
    heads, rows = short_rows(found, 8, 44)
    assert heads == snapshot(
        ["calls", "of server's time", "per call", "WAL", "dirtied", "read", "I/O"]
    )
    assert rows[1][1:] == ["30", "40 %", "3.33 ms", "7.81 kB", "20", "0", "3.00 ms"]
    assert len(tables(found)) == 2
    assert "evicted statements 2 times" in sentences(found)[1]


def test_a_run_that_did_not_ask_for_it_has_none(tmp_path: Path) -> None:
    with recorded(tmp_path, spec={"name": "sample"}) as run:
        assert statements_of(run, [1]) is None


def test_why_there_are_none_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_recorder(path, spec=ASKED) as recorder:
        slice_id = recorder.open_slice("run")
        note_missing(recorder, STATEMENTS, "it is not there; to allow it: create it")
        recorder.close_slice(slice_id)
        recorder.finish("done")
    with RunFile(path) as run:
        found = statements_of(run, [slice_id])
    assert found is not None
    assert sentences(found) == snapshot(["not read: it is not there; to allow it: create it"])
    assert tables(found) == []


def test_rolling_up_keeps_the_sums_and_what_is_unknown(tmp_path: Path) -> None:
    second = {INSERT: counts(10, 20.0, blocks_dirtied=7), "commit": counts(1, 2.0)}
    run = recorded(tmp_path, *[second] * 40)
    before = run.statement_counts()
    run.close()
    db = sqlite3.connect(run.path, isolation_level=None)
    roll_up(db, "statement_count", 0, 60_000, HOUR_MS)
    rows = db.execute("select at_ms, duration_ms from statement_count order by 1").fetchall()
    db.close()
    assert rows == [(0, 20_000.0), (0, 20_000.0), (20_000, 20_000.0), (20_000, 20_000.0)]
    with RunFile(run.path) as again:
        assert again.statement_counts() == before
    assert before[0].blocks_dirtied == 280
    assert before[0].jit_ms is None
