"""Rolling up: totals stay, slices stay apart, and days of data stay small."""

from __future__ import annotations

import random
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest
from pgdyno._engine import EngineError, Histogram
from record_samples import add_second, at, new_recorder, script_row, thread_row

from pgdyno.record import Recorder, RunFile
from pgdyno.record.rollup import HOUR_MS, MINUTE_MS, RollUp, roll_up, tables, tiers

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
    kinds = dict(zip(("response", "wait", "pool_wait", "service"), blobs, strict=True))
    row = {"clients": 8, "connections": 2, "intended": 61, "sent": 60, "done": 60, "backlog": 1}
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
    error = {
        "group": "web",
        "script": "tpcb-like",
        "statement": "",
        "sqlstate": "40001",
        "expected": 0,
        "retried": 1,
        "count": 1,
        "message": "m",
    }
    threads = [thread_row(thread=n, cpu_user_us=9, send_late=blobs[n]) for n in range(2)]
    add_second(
        recorder,
        second,
        [script_row(**row, **kinds)],
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


@pytest.mark.parametrize("bucket_ms", [10_000, 30_000, 60_000])
def test_totals_are_the_same_before_and_after(
    original: Path, tmp_path: Path, bucket_ms: int
) -> None:
    path = tmp_path / "rolled.db"
    db = copy_of(original, path)
    for table in tables():
        roll_up(db, table, 0, 120_000, bucket_ms)
        once = db.execute(f"select * from {table} order by 1, 2, 3, 4, 5").fetchall()
        roll_up(db, table, 0, 120_000, bucket_ms)
        assert db.execute(f"select * from {table} order by 1, 2, 3, 4, 5").fetchall() == once
    db.close()
    with RunFile(original) as before, RunFile(path) as after:
        assert len(after.intervals()) < len(before.intervals()) / 4
        for slice_ids in (None, [1], [2], [1, 2]):
            assert after.ledger(slice_ids) == before.ledger(slice_ids)
            assert after.ledger(slice_ids).balanced
            assert after.seconds(slice_ids) == pytest.approx(before.seconds(slice_ids))
            assert after.errors(slice_ids) == before.errors(slice_ids)
            assert after.generator(slice_ids) == before.generator(slice_ids)
            assert after.waits(slice_ids) == pytest.approx(before.waits(slice_ids))
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
        roll_up(db, "interval", 0, 60_000, 10_000)
    assert db.execute("select * from interval").fetchall() == before
    db.close()


def test_four_days_stay_under_200_mb(tmp_path: Path) -> None:
    """One ten-minute stretch is rolled up by the real tiers, and each tier's share of four days
    reckoned from it: pg_stat_io with 40 rows, ten relations, seven statements, two threads."""
    sizes: dict[tuple[str, int], float] = {}
    recorder = new_recorder(tmp_path / "run.db")
    generator = random.Random(2)
    for second in range(0, 600, 2):  # every other second, to be quick; the sizes are doubled
        add_everything(recorder, second, generator, wide=40)
    recorder.finish("done")
    db = sqlite3.connect(recorder.path, isolation_level=None)
    four_days_ms = 4 * 24 * HOUR_MS
    total_bytes = 0.0
    for table in tables():
        steps = [(0, 1000), *tiers(table), (four_days_ms, 0)]
        for (age_ms, bucket_ms), (next_age_ms, _) in pairwise(steps):
            if bucket_ms > 1000:
                roll_up(db, table, 0, 10 * MINUTE_MS, bucket_ms)
            doubled = 2 if bucket_ms == 1000 else 1
            sizes[table, bucket_ms] = doubled * table_bytes(db, table)
            total_bytes += sizes[table, bucket_ms] * (next_age_ms - age_ms) / (10 * MINUTE_MS)
    db.close()
    assert total_bytes < 200e6, {name: round(size / 1000) for name, size in sizes.items()}


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


def test_the_recorder_catches_up_in_bounded_steps(original: Path, tmp_path: Path) -> None:
    db = copy_of(original, tmp_path / "run.db")
    catching_up = RollUp()
    for _ in range(2 * len(tables())):
        catching_up.catch_up(db, HOUR_MS + 9 * MINUTE_MS)
    assert db.execute("select count(*) from interval").fetchone() == (120,)  # too young
    for _ in range(2 * len(tables())):
        catching_up.catch_up(db, HOUR_MS + 10 * MINUTE_MS)
    (left,) = db.execute("select count(*) from interval").fetchone()
    assert left < 20
    db.close()
