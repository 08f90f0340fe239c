"""Rolling up: totals stay, slices stay apart, and days of data stay small."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from record_samples import (
    add_second,
    at,
    error_row,
    group_row,
    new_recorder,
    script_row,
    thread_row,
)

from pgdyno._engine import EngineError, Histogram
from pgdyno.record import Recorder, RunFile
from pgdyno.record._interval_rows import SCRIPT_HISTOGRAMS
from pgdyno.record._rollup import FRESH_MS, HOUR_MS, MINUTE_MS, RollUp, bucket, roll_up, tables

WAITS = [("active", "IO", "WALSync"), ("active", "", ""), ("idle", "Client", "ClientRead")]


def latencies(generator: random.Random, count: int) -> bytes:
    histogram = Histogram()
    for _ in range(count):
        histogram.record(round(generator.lognormvariate(14, 0.7)))
    return histogram.encode()


def add_everything(recorder: Recorder, second: int, generator: random.Random, wide: int) -> None:
    """All that one second of a run brings; ``wide``: rows of I/O contexts and of relations."""
    ns = at(recorder, second)
    blobs = [latencies(generator, 60) for _ in range(4)]
    kinds = {name: blobs[n % 4] for n, name in enumerate(SCRIPT_HISTOGRAMS)}
    group = group_row(clients=8, connections=2, connects=2, reconnects=1, total=blobs[0])
    row = {"late": 3, "intended": 61, "sent": 60, "done": 60, "backlog": 1}
    row |= {"failed": 1 - (second == 0)}
    statements = [
        {
            "group": "web",
            "script": "tpcb-like",
            "position": n,
            "statement": f"update t{n} set x",
            "done": 60,
            "failed": 0,
            "service": blobs[n % 4],
        }
        for n in range(7)
    ]
    error = error_row(retried=1, message="m")
    threads = [thread_row(thread=n, cpu_user_us=9, send_late=blobs[n]) for n in range(2)]
    add_second(
        recorder,
        second,
        [script_row(**row, **kinds)],
        groups=[group],
        statements=statements,
        errors=[error],
        threads=threads,
    )
    rows = [
        {
            "ticks": 10,
            "backend_type": "client backend",
            "state": state,
            "wait_event_type": kind,
            "wait_event": event,
            "count": 5 * n + second % 3,
            "statement_id": None,
        }
        for n, (state, kind, event) in enumerate(WAITS)
        if n != second % 3
    ]
    recorder.add_rows("wait_sample", rows, ns=ns)
    queue = {
        "looks": 5,
        "seen": 5,
        "lock_type": "transactionid",
        "mode": "ExclusiveLock",
        "blocker_state": "active",
        "blocker_type": "client backend",
        "blocker_pid": 7,
        "waiting": 50 + second % 7,
        "first": 5,
        "places": 5,
        "behind_request": second,
        "blocker_transaction_ms_max": 40.0 + second,
        "blocker_transaction_ms": 25.5,
        "blocker_state_ms": 5.25,
        "wait_ms_max": 12.0 + second,
    }
    relations = (f"public.t{n}" for n in range(wide // 10 + 1))
    recorder.add_rows("lock_queue", [queue | {"relation": name} for name in relations], ns=ns)
    recorder.add_rows("metric_wal", [{"wal_bytes": 10**9 + 8192 * second}], ns=ns)
    recorder.add_rows(
        "metric_io",
        [
            {
                "backend_type": f"type {n}",
                "object": "relation",
                "context": "normal",
                "reads": 1000 * n + second,
                "writes": second,
                "write_bytes": second * 8192,
                "hits": 10**6 + second * 77,
                "fsyncs": second,
                "read_time_ms": second * 0.37,
            }
            for n in range(wide)
        ],
        ns=ns,
    )
    recorder.add_rows(
        "metric_table",
        [
            {
                "relation": f"public.t{n}",
                "n_tup_ins": second,
                "n_tup_upd": second * 60,
                "n_live_tup": 10**6,
                "size_bytes": 10**8 + second,
            }
            for n in range(wide // 4)
        ],
        ns=ns,
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes: no slice for 25 s, two slices of 35 s and 25 s, none again."""
    path = tmp_path_factory.mktemp("rollup") / "run.db"
    recorder = new_recorder(path)
    generator = random.Random(1)
    for second in range(120):
        if second in (25, 60):
            recorder.open_slice("trial", ns=at(recorder, second))
        if second == 85:
            recorder.set_slice(None)
        add_everything(recorder, second, generator, wide=4)
    recorder.finish("done")
    return path


def copy_of(path: Path, to: Path) -> sqlite3.Connection:
    to.write_bytes(path.read_bytes())
    return sqlite3.connect(to, isolation_level=None)


@pytest.mark.parametrize("hours", [(1,), (6,), (24,), (1, 6, 24)])
def test_totals_are_the_same_before_and_after(
    original: Path, tmp_path: Path, hours: tuple[int, ...]
) -> None:
    path = tmp_path / "rolled.db"
    db = copy_of(original, path)
    for table in tables():
        for hour in hours:
            roll_up(db, table, 0, 10 * MINUTE_MS, hour * HOUR_MS)
        once = sorted(db.execute(f"select * from {table}"), key=repr)
        roll_up(db, table, 0, 10 * MINUTE_MS, hours[-1] * HOUR_MS)
        assert sorted(db.execute(f"select * from {table}"), key=repr) == once
    db.close()
    with RunFile(original) as before, RunFile(path) as after:
        assert len(after.intervals()) < len(before.intervals()) / 3
        assert len(after.latency_series("service")["at_ms"]) < len(after.intervals())
        for slice_ids in (None, [1], [2], [1, 2]):
            assert after.ledger(slice_ids) == before.ledger(slice_ids)
            assert after.ledger(slice_ids).balanced
            assert after.seconds(slice_ids) == pytest.approx(before.seconds(slice_ids))
            assert after.errors(slice_ids) == before.errors(slice_ids)
            assert after.generator(slice_ids) == before.generator(slice_ids)
            assert after.waits(slice_ids) == pytest.approx(before.waits(slice_ids))
            assert after.lock_queues(slice_ids) == before.lock_queues(slice_ids)
            for kind in ("response", "pool_wait", "service", "send_late"):
                one, other = (run.histogram(kind, slice_ids).buckets() for run in (before, after))
                assert one == other
            for one, other in zip(
                before.statements(slice_ids), after.statements(slice_ids), strict=True
            ):
                assert (one.statement, one.done) == (other.statement, other.done)
                assert one.service.buckets() == other.service.buckets()
        for slice_ids in ([1], [2], [1, 2]):
            for table, column in (("metric_wal", "wal_bytes"), ("metric_io", "reads")):
                rise = before.delta(table, column, slice_ids)
                assert after.delta(table, column, slice_ids) == rise


def test_a_roll_up_that_fails_changes_nothing(original: Path, tmp_path: Path) -> None:
    db = copy_of(original, tmp_path / "broken.db")
    db.execute("update interval set service_hist = x'00' where at_ms = 5000")
    before = db.execute("select * from interval").fetchall()
    with pytest.raises(EngineError):
        roll_up(db, "interval", 0, 10 * MINUTE_MS, HOUR_MS)
    assert db.execute("select * from interval").fetchall() == before
    db.close()


@pytest.mark.parametrize("hours", [1, 6, 24, 96])
def test_a_run_of_any_length_stays_under_200_mb(tmp_path: Path, hours: int) -> None:
    """Ten minutes are rolled up as in a run of that length, and its size is reckoned from them:
    pg_stat_io with 40 rows, ten relations, seven statements, two threads, four full histograms."""
    recorder = new_recorder(tmp_path / "run.db")
    generator = random.Random(2)
    for second in range(0, 600, 4):  # every fourth second, to be quick
        add_everything(recorder, second, generator, wide=40)
    recorder.finish("done")
    db = sqlite3.connect(recorder.path, isolation_level=None)
    fresh_bytes = 4 * sum(table_bytes(db, table) for table in tables())
    just_before_ms, after_ms = hours * HOUR_MS - 1, hours * HOUR_MS
    total_bytes = []
    for run_ms in (just_before_ms, after_ms):
        for table in tables():
            roll_up(db, table, 0, 10 * MINUTE_MS, run_ms)
        rolled = bucket("interval", run_ms) > 0
        step_bytes = sum(table_bytes(db, table) for table in tables()) if rolled else fresh_bytes
        total_bytes.append(fresh_bytes + step_bytes * run_ms / (10 * MINUTE_MS))
    db.close()
    assert max(total_bytes) < 200e6


def table_bytes(db: sqlite3.Connection, table: str) -> int:
    """Bytes of a table as records, 12 more per row for its header and index entry."""
    names = [row[1] for row in db.execute(f"pragma table_info({table})")]
    # 1 + a number's width is what SQLite's record format takes at most for these values.
    sized = " + ".join(
        f"case typeof({name}) when 'integer' then 1 + min(8, length(abs({name})) / 2 + 1)"
        f" when 'real' then 9 else 1 + coalesce(length({name}), 0) end"
        for name in names
    )
    ((size,),) = db.execute(f"select coalesce(sum(12 + {sized}), 0) from {table}")
    return int(size)


def test_catching_up_goes_in_bounded_steps_and_comes_to_an_end(
    original: Path, tmp_path: Path
) -> None:
    db = copy_of(original, tmp_path / "run.db")
    count = "select count(*), sum(length(service_hist) > 0) from interval"
    catching_up = RollUp()
    assert not catching_up.catch_up(db, HOUR_MS - 1)  # young runs keep every second
    assert db.execute(count).fetchone() == (120, 120)
    steps = 0
    while catching_up.catch_up(db, HOUR_MS):
        steps += 1
    assert steps == 50 * len(tables())  # fifty minutes, one at a time
    rows, filled = db.execute(count).fetchone()
    assert (rows, filled) == (24, 8)  # 5 s, and 20 s, cut at 25, 60 and 85 s
    while catching_up.catch_up(db, 24 * HOUR_MS):  # another stage: once more from the start
        pass
    assert db.execute(count).fetchone()[0] == 4  # a minute, cut likewise
    db.close()


def test_the_newest_minutes_stay_as_they_are(original: Path, tmp_path: Path) -> None:
    db = copy_of(original, tmp_path / "run.db")
    db.execute("update interval set at_ms = at_ms + ?", (HOUR_MS,))
    catching_up = RollUp()
    while catching_up.catch_up(db, HOUR_MS + FRESH_MS - 1):
        pass
    assert db.execute("select count(*) from interval").fetchone() == (120,)
    db.close()


def until(happened: Callable[[], object]) -> None:
    """Waits for another thread; the test's own time limit ends it."""
    while not happened():
        time.sleep(0.05)


def two_hours_in(path: Path, service: bytes) -> Recorder:
    """A recorder that has, by its clock, run for two hours, of which one minute left rows."""
    recorder = new_recorder(path)
    recorder._writer.started_ns -= 2 * HOUR_MS * 1_000_000
    for second in range(60):
        add_second(recorder, second, [script_row(intended=1, done=1, service=service)])
    recorder.flush()
    return recorder


def test_the_recorder_rolls_up_by_itself(tmp_path: Path) -> None:
    recorder = two_hours_in(tmp_path / "run.db", latencies(random.Random(3), 10))
    with RunFile(recorder.path) as run:
        until(lambda: len(run.intervals()) == 12)  # 5 s each
        assert run.ledger().done == 60
        assert run.histogram("service").count == 600
    recorder.finish("done")


def test_what_cannot_be_rolled_up_is_kept_and_said(tmp_path: Path) -> None:
    recorder = two_hours_in(tmp_path / "run.db", b"no histogram")
    with RunFile(recorder.path) as run:
        until(lambda: run.events("warning"))
        add_second(recorder, 61, [script_row(done=1)])
        recorder.finish("done")
        assert len(run.intervals()) == 61
