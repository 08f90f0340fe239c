"""The reader: the sums it gives, and what it says of files it cannot use."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import (
    add_second,
    at,
    error_row,
    group_row,
    new_recorder,
    script_row,
    thread_row,
)

from pgdyno._engine import Histogram
from pgdyno.errors import UsageError
from pgdyno.record import Recorder, RunFile, throughput_tps
from pgdyno.record.fileformat import GAUGES, KEY_COLUMNS, SCHEMA_VERSION, columns
from pgdyno.record.finding import Finding


def hist(*ns: int) -> bytes:
    histogram = Histogram()
    for value in ns:
        histogram.record(value)
    return histogram.encode()


def fill(recorder: Recorder) -> tuple[int, int]:
    """Two slices of two seconds, two scripts in one group and a third in another."""
    slices = []
    for number in range(2):
        slice_id = recorder.open_slice("trial", trial_id=1, pair=1, side="ab"[number])
        slices.append(slice_id)
        for second in (2 * number, 2 * number + 1):
            add_second(
                recorder,
                second,
                [
                    script_row(
                        "web",
                        "read",
                        intended=10,
                        sent=10,
                        done=9,
                        backlog=second + 1,
                        service=hist(1_000_000),
                    ),
                    script_row(
                        "web",
                        "write",
                        intended=5,
                        sent=5,
                        done=4,
                        failed=1,
                        service=hist(3_000_000),
                    ),
                    script_row(
                        "batch",
                        "load",
                        intended=1,
                        done=1,
                        sent=1,
                        service=hist(9_000_000),
                    ),
                ],
                groups=[
                    group_row("web", clients=4, connections=2, connects=second, total=hist(7_000)),
                    group_row("batch", clients=1, connections=1, connect_failures=1),
                ],
                statements=[
                    {
                        "group": "web",
                        "script": "write",
                        "position": 1,
                        "statement": "commit",
                        "done": 4,
                        "failed": 1,
                        "service": hist(2_000_000),
                    },
                    {
                        "group": "web",
                        "script": "write",
                        "position": 0,
                        "statement": "insert",
                        "done": 5,
                        "failed": 0,
                        "service": hist(1_000_000),
                    },
                ],
                errors=[
                    error_row(
                        script="write",
                        statement="commit",
                        retried=1,
                        count=2,
                        message=f"observed at {second}",
                        client=second,
                    ),
                ],
                threads=[thread_row(send_late=hist(5_000))],
            )
        recorder.close_slice(slice_id)
    return slices[0], slices[1]


@pytest.fixture
def run(tmp_path: Path) -> RunFile:
    recorder = new_recorder(tmp_path / "run.db")
    fill(recorder)
    recorder.finish("done")
    return RunFile(recorder.path)


def test_the_ledger_adds_up_for_the_run_and_for_each_slice(run: RunFile) -> None:
    whole = run.ledger()
    assert (whole.intended, whole.done, whole.failed, whole.backlog) == (64, 56, 4, 4)
    assert whole.balanced
    assert whole.carried_in == 0
    second = run.ledger([2])
    assert (second.intended, second.carried_in, second.backlog) == (32, 2, 4)
    assert second.balanced
    assert run.ledger([1, 2]) == whole
    assert run.ledger([99]) == run.ledger([])
    assert run.ledger([]).intended == 0


def test_a_lost_transaction_breaks_the_ledger(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        add_second(recorder, 0, [script_row(intended=10, done=9)])
        recorder.finish("done")
    ledger = RunFile(recorder.path).ledger()
    assert (ledger.balanced, ledger.unaccounted) == (False, 1)


def test_intervals_are_summed_as_asked(run: RunFile) -> None:
    summed = run.intervals()
    assert [interval.at_ms for interval in summed] == [0, 1000, 2000, 3000]
    assert [interval.done for interval in summed] == [14] * 4
    assert (summed[0].clients, summed[0].connections, summed[0].client_group) == (5, 3, None)
    assert summed[0].throughput_tps == 14
    by_group = run.intervals([1], by=("client_group",))
    assert [(i.client_group, i.clients, i.done) for i in by_group[:2]] == [
        ("batch", 1, 1),
        ("web", 4, 13),
    ]
    by_script = run.intervals([2], by=("client_group", "script"))
    assert [(i.script, i.done) for i in by_script] == [("load", 1), ("read", 9), ("write", 4)] * 2
    assert run.seconds() == 4
    assert throughput_tps(run, [1]) == 14
    assert throughput_tps(run, []) == 0


def test_connections_are_counted_by_group(run: RunFile) -> None:
    groups = run.group_intervals([1])
    assert [(g.at_ms, g.client_group, g.connections, g.connects) for g in groups] == [
        (0, "batch", 1, 0),
        (0, "web", 2, 0),
        (1000, "batch", 1, 0),
        (1000, "web", 2, 1),
    ]
    assert sum(g.connect_failures for g in run.group_intervals()) == 4
    assert run.histogram("total", group="web").count == 4
    assert run.histogram("total", [2], group="batch").count == 0
    assert run.histogram("tls").count == 0


def test_histograms_merge_over_what_is_asked(run: RunFile) -> None:
    assert run.histogram("service").count == 12
    assert run.histogram("service", [1], group="web").count == 4
    assert run.histogram("service", script="load").percentile(50) >= 9_000_000
    assert run.histogram("send_late").count == 4
    assert run.histogram("service", []).count == 0
    first, second = run.statements()
    assert (first.statement, first.done, first.service.count) == ("insert", 20, 4)
    assert (second.statement, second.done, second.failed) == ("commit", 16, 4)


def test_latency_over_time_is_in_milliseconds_and_thinned_to_order(run: RunFile) -> None:
    series = run.latency_series("service", (50, 100))
    assert list(series) == ["at_ms", "slice_id", "p50", "max"]
    assert series["at_ms"].tolist() == [0, 1000, 2000, 3000]
    np.testing.assert_allclose(series["max"], 9, rtol=0.01)
    thinned = run.latency_series("service", points_max=2)
    assert thinned["at_ms"].tolist() == [0, 2000]
    gathered = run.latency_series("wait", (99,))  # empty blobs: told by another interval
    assert gathered["p99"].shape == (0,)


def test_an_interval_without_an_answer_has_no_latency(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        add_second(recorder, 0, [script_row(service=hist())])
        add_second(recorder, 1, [script_row(service=hist(2_000_000))])
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        first, second = run.latency_series("service", (50,))["p50"]
        assert np.isnan(first)
        assert second == pytest.approx(2, rel=0.02)


def test_a_histogram_given_out_is_the_callers_own(run: RunFile) -> None:
    taken = run.histogram("service")
    taken.record(5)
    assert run.histogram("service").count == taken.count - 1


def test_errors_are_counted_by_kind(run: RunFile) -> None:
    (error,) = run.errors()
    assert (error.sqlstate, error.count, error.retried, error.expected) == ("40001", 8, True, False)
    assert error.message == "observed at 0"


def test_series_select_and_keep_nulls(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        for second in range(3):
            rows = [{"relation": name, "n_tup_ins": second} for name in ("a", "b")]
            recorder.add_rows("metric_table", rows, ns=at(recorder, second))
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        series = run.series("metric_table", where={"relation": "a"})
        assert series["at_ms"].tolist() == [0, 1000, 2000]
        assert series["relation"].tolist() == ["a"] * 3
        assert np.isnan(series["n_tup_upd"]).all()
        assert len(run.series("metric_table", where={"relation": ("a", "b")})["at_ms"]) == 6
        assert len(run.series("metric_table", where={"n_tup_upd": None})["at_ms"]) == 6
        assert run.series("metric_wal")["wal_bytes"].shape == (0,)
        rows = run.samples("metric_table", where={"relation": "a"})
        assert [row["n_tup_ins"] for row in rows] == [0.0, 1.0, 2.0]
        assert {name: row for name, row in rows[1].items() if row is not None} == {
            "at_ms": 1000,
            "relation": "a",
            "n_tup_ins": 1.0,
        }
        assert list(rows[0]) == list(series)
        assert run.samples("metric_wal") == []
        assert run.has_samples("metric_table")
        assert not run.has_samples("metric_table", [1])
        assert not run.has_samples("metric_wal")
        for wrong in ("metric_x", "statement"):
            with pytest.raises(ValueError, match=wrong):
                run.series(wrong)
        with pytest.raises(ValueError, match="nonsense"):
            run.series("metric_wal", where={"nonsense": 1})


def test_deltas_are_taken_within_slices_and_keys(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        for number, base in enumerate((0, 1000)):  # 900 of each happens between the slices
            recorder.open_slice("trial")
            for second in range(3):
                rows = [
                    {"relation": "a", "n_tup_ins": base + 10 * second, "size_bytes": 50 - second},
                    {"relation": "b", "n_tup_ins": base + second},
                ]
                recorder.add_rows("metric_table", rows, ns=at(recorder, 10 * number + second))
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert run.delta("metric_table", "n_tup_ins") == 2 * (20 + 2)
        assert run.delta("metric_table", "n_tup_ins", [2], {"relation": "a"}) == 20
        assert run.delta("metric_table", "size_bytes", [1]) == -2  # a gauge may shrink
        assert run.delta("metric_table", "n_tup_upd") is None
        assert run.delta("metric_table", "n_tup_ins", []) is None
        with pytest.raises(ValueError, match="no numeric column 'relation'"):
            run.delta("metric_table", "relation")


def test_a_reset_counter_does_not_count_backwards(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        for second, wal_bytes in enumerate((100, 150, 0, 30)):
            recorder.add_rows("metric_wal", [{"wal_bytes": wal_bytes}], ns=at(recorder, second))
        recorder.finish("done")
    assert RunFile(recorder.path).delta("metric_wal", "wal_bytes") == 80


def test_waits_are_average_backends(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        update = recorder.statement_id("update t")
        assert recorder.statement_id("update t") == update
        base = {
            "ticks": 10,
            "backend_type": "client backend",
            "wait_event_type": "",
            "wait_event": "",
            "state": "active",
        }
        flush = base | {"wait_event_type": "IO", "wait_event": "WALSync", "statement_id": update}
        for second in range(2):
            rows = [base | {"count": 10}] + [flush | {"count": 25}] * (second == 0)
            recorder.add_rows("wait_sample", rows, ns=at(recorder, second))
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        first, second_ = run.waits()
        assert (first.wait_event, first.statement, first.average) == ("WALSync", "update t", 1.25)
        assert (second_.statement, second_.average) == (None, 1.0)
        series = run.wait_series()
        assert series["average"].tolist() == [1, 2.5, 1]
        assert series["at_ms"].tolist() == [0, 0, 1000]
        assert run.waits([9]) == []


def test_events_findings_and_slices_come_in_order(tmp_path: Path) -> None:
    with new_recorder(tmp_path / "run.db") as recorder:
        recorder.add_event("vacuum", "late", ns=at(recorder, 5))
        recorder.add_event("checkpoint", "early", {"buffers": 3}, ns=at(recorder, 1))
        for rank, status in ((None, "cleared"), (2, "found"), (1, "found")):
            members = {"id": f"f{rank}", "status": status, "rank": rank, "sentence": ""}
            recorder.add_finding(Finding.model_validate(members))
        recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert [event.label for event in run.events()] == ["early", "late"]
        assert run.events("checkpoint")[0].detail == {"buffers": 3}
        assert [finding.rank for finding in run.findings()] == [1, 2, None]
        assert run.findings(step=1) == []


def test_a_growing_file_is_read_as_it_grows(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    with RunFile(recorder.path) as run:
        assert run.run.status == "running"
        add_second(recorder, 0, [script_row(done=1)])
        recorder.flush()
        assert run.ledger().done == 1
        assert run.histogram("service").count == 0
        add_second(recorder, 1, [script_row(done=1, service=hist(7))])
        recorder.flush()
        assert run.histogram("service").count == 1
        recorder.finish("done")
        assert run.run.status == "done"


def test_a_file_whose_writer_is_gone_is_interrupted(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    recorder.finish("done")
    with sqlite3.connect(recorder.path) as db:
        db.execute(
            "update run set status = 'running', "
            "writer_json = json_set(writer_json, '$.started_ticks', 1)"
        )
    db.close()
    run = RunFile(recorder.path).run
    assert (run.status, run.status_detail) == ("interrupted", "the recording process has ended")


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught, RunFile(path) as run:
        run.run, run.ledger(), run.histogram("service"), run.statements(), run.events()
    assert caught.value.hint
    assert not caught.value.message.endswith(".")
    return caught.value.code


def test_files_that_are_no_run_files_are_refused(tmp_path: Path, run: RunFile) -> None:
    assert refused(tmp_path / "missing.db") == "run-file-missing"
    assert refused(tmp_path) == "run-file-unreadable"
    (tmp_path / "empty").write_bytes(b"")
    assert refused(tmp_path / "empty") == "run-file-foreign"
    (tmp_path / "text").write_text("hello " * 1000)
    assert refused(tmp_path / "text") == "run-file-foreign"
    with sqlite3.connect(tmp_path / "foreign.db") as db:
        db.execute("create table run (id)")
    db.close()
    assert refused(tmp_path / "foreign.db") == "run-file-foreign"


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_file_of_another_version_is_refused(version: int, run: RunFile) -> None:
    with sqlite3.connect(run.path) as db:
        db.execute(f"pragma user_version = {version}")
    db.close()
    with pytest.raises(UsageError) as refusal:
        RunFile(run.path)
    assert refusal.value.code == "run-file-version"
    assert str(refusal.value) == (
        f"{run.path} has version {version} of the schema of run files; this pgdyno reads version"
        f" {SCHEMA_VERSION}"
    )


def test_a_truncated_file_is_refused(tmp_path: Path, run: RunFile) -> None:
    data = run.path.read_bytes()
    for size in (50, 100, 4096, len(data) // 2, len(data) - 1):
        (tmp_path / "short.db").write_bytes(data[:size])
        assert refused(tmp_path / "short.db") in ("run-file-foreign", "run-file-damaged")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_but_never_a_traceback(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        recorder = new_recorder(path)
        fill(recorder)
        recorder.finish("done")
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 20))):
            start = data.draw(st.integers(0, len(content) - 1))
            noise = data.draw(st.binary(min_size=1, max_size=64))
            content[start : start + len(noise)] = noise[: len(content) - start]
        path.write_bytes(content)
        with suppress(UsageError), RunFile(path) as run:
            run.run, run.ledger(), run.intervals(), run.histogram("service"), run.statements()
            run.errors(), run.waits(), run.events(), run.findings(), run.trials()
            [run.cuts(drill.id) for drill in run.drills()]
            run.series("metric_generator"), run.delta("metric_wal", "wal_bytes"), run.slices()
            run.latency_series("response"), run.seconds(), run.generator(), run.wait_series()


def test_a_file_nobody_may_write_beside_is_still_read(tmp_path: Path, run: RunFile) -> None:
    copy = tmp_path / "odd name?#%.db"
    shutil.copy(run.path, copy)
    copy.chmod(0o444)
    assert RunFile(copy).ledger().done == 56


def test_gauges_and_keys_name_columns_that_exist() -> None:
    metrics = {table: names for table, names in columns().items() if table.startswith("metric_")}
    everywhere = set().union(*metrics.values())
    assert everywhere >= GAUGES
    for table, keys in KEY_COLUMNS.items():
        assert set(keys) <= set(metrics[table])
