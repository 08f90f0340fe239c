"""``python -m benches.govern``: the governor against the published behaviour, closed loop.

A server of an age near the high mark is loaded by threads that use up transaction IDs. When the
age reaches the high mark, what pins it is let go and a vacuum runs, but only after ``--vacuum``
seconds, as a real one takes its time. Loaders are governed by pgdyno's daemon, or by what Senzing's
governor (1.0.10) is described to do: a check of the oldest ordinary table every 5 seconds under one
lock; steps of delay from 0.1 to 9 s between the marks; and above the high mark "stop" to the one
caller that checked, who sleeps a second, while all others get no delay until the next check.

Marks are close to each other, so that seconds show what takes hours: all times of both sides are
``--times`` shorter than usual. Printed are the IDs assigned above the high mark, the batches begun
there, the time during which nothing was begun, and for pgdyno the time for which loaders went on
after kill -9 of the daemon, the cost of a decision, and the CPU time of its sessions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.govern import Governor
from pgdyno.server import Cluster, find_installation
from pgdyno.server.local.aging import fast_forward, unpin

HIGH = 1_500_000_000
_STEPS = (0.1, 0.2, 0.5, 0.7, 1.0, 2.0, 4.0, 6.0, 9.0)
_CHECK_S, _STOPPED_S = 5.0, 1.0
_SETTINGS = {
    "wal_level": "logical",
    "autovacuum": "off",
    "autovacuum_freeze_max_age": "2000000000",
    "synchronous_commit": "off",
}
_BATCH = b"do $$ begin for i in 1..50 loop perform pg_current_xact_id(); commit; end loop; end $$"
_AGE = b"select max(age(datfrozenxid)) from pg_database"


class Published:
    """The published behaviour, with times divided by ``times``."""

    def __init__(self, cluster: Cluster, low: int, high: int, times: float) -> None:
        """Connect to the server."""
        self._conn = psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True)
        self._low, self._high, self._times = low, high, times
        self._lock = threading.Lock()
        self._checked_s = 0.0
        self._delay_s = 0.0

    def wait(self) -> None:
        """Sleep as a loader does that asks this governor before each batch."""
        with self._lock:
            now_s = time.monotonic()
            delay_s = self._delay_s
            if now_s - self._checked_s >= _CHECK_S / self._times:
                self._checked_s = now_s
                delay_s = self._check()
        if delay_s < 0:
            delay_s = _STOPPED_S / self._times
        if delay_s:
            time.sleep(delay_s)

    def _check(self) -> float:
        row = self._conn.execute(
            "select max(age(relfrozenxid)) from pg_class where relkind in ('r', 'm')"
        ).fetchone()
        ratio = ((row or (0,))[0] - self._low) / (self._high - self._low)
        self._delay_s = 0.0
        if ratio > 1:
            return -1.0
        step = int(ratio * 10) if ratio > 0.1 else 0
        self._delay_s = _STEPS[min(step, len(_STEPS)) - 1] / self._times if step else 0.0
        return self._delay_s

    def close(self) -> None:
        """Disconnect."""
        self._conn.close()


@dataclass
class Course:
    """The course of one side."""

    begun_s: list[float] = field(default_factory=list)
    """Times at which batches began."""
    above_high: int = 0
    age_max: int = 0
    at_high_s: float = 0.0
    down_s: float = 0.0
    """Time at which the vacuum had brought the age down."""

    def longest_rest_s(self) -> float:
        """Return the longest time in which no batch began."""
        times = sorted(self.begun_s)
        return max((b - a for a, b in pairwise(times)), default=0.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both sides and print."""
    given = _parser().parse_args(argv)
    try:
        for side in ("published", "pgdyno"):
            _measure(side, given)
    except PgdynoError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches.govern", description=__doc__)
    parser.add_argument("--pg-version", type=int, default=18)
    parser.add_argument("--loaders", type=int, default=4)
    parser.add_argument("--band", type=int, default=60_000, help="distance of the marks")
    parser.add_argument("--vacuum", type=float, default=5.0, help="seconds that a vacuum takes")
    parser.add_argument("--times", type=float, default=10.0, help="how much quicker than usual")
    parser.add_argument("--most", type=float, default=60.0, help="seconds of a side at most")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of the daemon's cost")
    parser.add_argument("--after", type=float, default=12.0, help="seconds after kill -9")
    return parser


def _measure(side: str, given: argparse.Namespace) -> None:
    low = HIGH - given.band
    with Cluster.create(find_installation(None, given.pg_version), _SETTINGS) as cluster:
        jump = fast_forward(cluster, "xid", low - 32_768)
        high = low + given.band
        course = Course()
        if side == "published":
            governor = Published(cluster, low, high, given.times)
            _load(cluster, [governor.wait] * given.loaders, high, given, course)
            governor.close()
            _print(side, course, high, jump.seconds)
            return
        with _daemon(cluster, low, high, 1000 / given.times) as (process, url):
            with Governor(url) as ours:
                waits: list[Callable[[], object]] = [ours.wait] * given.loaders
                _load(cluster, waits, high, given, course)
                _print(side, course, high, jump.seconds)
                print(f"  a decision from memory: {_decision_us(ours):.2f} µs")
                after_s, later = _after_kill(cluster, ours, process, given)
            print(f"  kill -9: batches began for {1000 * after_s:.1f} ms, and {later} later")
        with _daemon(cluster, low, high, 1000) as (_, _url):
            share = _cpu_share(cluster, given.idle)
            print(f"  its sessions at one look a second: {100 * share:.3f} % of one core")


def _print(side: str, course: Course, high: int, jump_s: float) -> None:
    print(
        f"{side}: {len(course.begun_s):,} batches; above the high mark {course.above_high:,} began,"
        f" and {max(0, course.age_max - high):,} IDs were assigned; longest rest"
        f" {course.longest_rest_s():.1f} s (age in {jump_s:.1f} s)",
        flush=True,
    )


def _load(
    cluster: Cluster,
    waits: Sequence[Callable[[], object]],
    high: int,
    given: argparse.Namespace,
    course: Course,
) -> None:
    """Load until some time after the vacuum, which begins at the high mark."""
    stop, age = threading.Event(), [0]

    def loader(wait: Callable[[], object]) -> None:
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            while not stop.is_set():
                wait()
                if stop.is_set():
                    return
                course.begun_s.append(time.monotonic())
                course.above_high += age[0] >= high
                conn.execute(_BATCH)

    threads = [threading.Thread(target=loader, args=(wait,), daemon=True) for wait in waits]
    for thread in threads:
        thread.start()
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < given.most and not course.down_s:
            age[0] = int((conn.execute(_AGE).fetchone() or (0,))[0])
            course.age_max = max(course.age_max, age[0])
            if age[0] >= high and not course.at_high_s:
                course.at_high_s = time.monotonic()
            if course.at_high_s and time.monotonic() - course.at_high_s >= given.vacuum:
                _bring_down(cluster, conn)
                course.down_s = time.monotonic()
            time.sleep(0.01)
    age[0] = 0
    time.sleep(2.0)
    stop.set()
    for thread in threads:
        thread.join()


def _bring_down(cluster: Cluster, conn: psycopg.Connection) -> None:
    unpin(conn, "xid")
    conn.execute("update pg_database set datallowconn = true")
    for (name,) in conn.execute("select datname from pg_database").fetchall():
        values = {**cluster.conninfo.kwargs(), "dbname": name}
        with psycopg.connect(**values, autocommit=True) as other:
            other.execute("vacuum (freeze)")


def _decision_us(governor: Governor, count: int = 100_000) -> float:
    begun_s = time.perf_counter()
    for _ in range(count):
        governor.decision()
    return 1e6 * (time.perf_counter() - begun_s) / count


def _after_kill(
    cluster: Cluster, governor: Governor, process: subprocess.Popen[str], given: argparse.Namespace
) -> tuple[float, int]:
    """Return for how long batches began after the kill, and those that began a second later."""
    begun_s: list[float] = []
    stop = threading.Event()

    def loader() -> None:
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            while not stop.is_set():
                if governor.wait(timeout_s=0.2).go:
                    begun_s.append(time.monotonic())
                    conn.execute(_BATCH)

    threads = [threading.Thread(target=loader, daemon=True) for _ in range(given.loaders)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    killed_s = time.monotonic()
    process.kill()
    time.sleep(given.after)
    stop.set()
    for thread in threads:
        thread.join()
    after = [each - killed_s for each in begun_s if each > killed_s]
    return max(after, default=0.0), sum(each > 1.0 for each in after)


@contextmanager
def _daemon(
    cluster: Cluster, low: int, high: int, interval_ms: float
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    values = {**cluster.conninfo.kwargs()}
    values.pop("application_name", None)
    words = ["govern", psycopg.conninfo.make_conninfo("", **values), "--listen", "127.0.0.1:0"]
    words += ["--low", str(low), "--high", str(high), "--interval", f"{interval_ms:.0f}ms"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        while line and "loaders ask" not in line:
            line = process.stderr.readline()
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stderr.close()


def _cpu_share(cluster: Cluster, seconds: float) -> float:
    """Return the CPU time of the governor's server processes over ``seconds``."""
    named = b"select pid from pg_stat_activity where application_name ~ '^pgdyno (govern|lock)'"
    time.sleep(2.0)
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        pids = [pid for (pid,) in conn.execute(named)]
        before = [_cpu_s(pid) for pid in pids]
        time.sleep(seconds)
        return (sum(map(_cpu_s, pids)) - sum(before)) / seconds


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    sys.exit(main())
