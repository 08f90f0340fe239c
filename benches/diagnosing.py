"""Time to diagnose a run file, and to make its page: ten minutes at one second, and four days as
they are rolled up.

``python -m benches.diagnosing`` writes both files by hand, diagnoses each in a process of its own
and prints the seconds of CPU. Rows are as many as a run of two scripts with seven statements each
leaves.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from pgdyno._engine import Histogram
from pgdyno.record import Recorder, SliceKind
from pgdyno.record.fileformat import CORES_ALL, CORES_BUSY

_STATEMENTS = tuple(f"update shop_{n} set a = a + :delta where id = :id" for n in range(7))
_SCRIPTS = ("orders", "stock")
_WAITS = (
    ("", ""), ("IO", "WalSync"), ("LWLock", "WALWrite"), ("Lock", "transactionid"),
    ("IO", "DataFileRead"), ("LWLock", "WALInsert"),
)  # fmt: skip
_TABLES = 20
_HISTOGRAMS = 200
"""Different ones, of which each interval has one: to make them takes longer than to record them."""
DIAGNOSIS = """
import sys, time
from pgdyno.record import RunFile
began = time.process_time()
from pgdyno.diagnose import diagnose
from pgdyno.trial.result import run_result
run = RunFile(sys.argv[1])
ids = [part.id for part in run.slices()]
run_result(run, ids, diagnose(run, ids))
print(time.process_time() - began)
"""
PAGE = """
import sys, time
from pathlib import Path
began = time.process_time()
from pgdyno.record import RunFile
from pgdyno.report import write_html
write_html(RunFile(sys.argv[1]), Path(sys.argv[1] + ".html"))
print(time.process_time() - began)
"""


class Length(Struct, frozen=True):
    """A run's duration, and the seconds that its rows cover: counts, and what is coarser."""

    name: str
    seconds: int
    fine_s: int
    coarse_s: int
    required_s: float
    page_required_s: float


LENGTHS = (
    Length("10 min", 600, 1, 1, 2.0, 5.0),
    Length("4 days", 4 * 86_400, 60, 300, 10.0, 5.0),
)


def write(path: Path, length: Length) -> None:
    """Write the run file of a steady load of ``length``."""
    rng = random.Random(1)
    recorder = new_recorder(path, length)
    slice_id = recorder.open_slice(SliceKind.RUN, ns=recorder.started_ns)
    for second in range(0, length.seconds, length.fine_s):
        coarse = second % length.coarse_s == 0
        recorder.add_interval(interval_of(recorder, second, length, coarse=coarse, rng=rng))
        at_ns = recorder.started_ns + second * 1_000_000_000
        for table, rows in fine_rows(second, length).items():
            recorder.add_rows(table, rows, ns=at_ns)
        if coarse:
            for table, rows in coarse_rows(recorder, second, length, rng).items():
                recorder.add_rows(table, rows, ns=at_ns)
    recorder.close_slice(slice_id, ns=recorder.started_ns + length.seconds * 1_000_000_000)
    recorder.finish("done")


def new_recorder(path: Path, length: Length) -> Recorder:
    """Begin the run file."""
    clients = [{"name": "web", "count": 32, "arrival": "closed"}]
    return Recorder.create(
        path,
        name=length.name,
        command="run",
        spec={"name": length.name, "clients": clients},
        server={"version_num": 180000, "settings": {}},
        host={"cores": 8, "same_host_as_server": True},
    )


def interval_of(
    recorder: Recorder, second: int, length: Length, *, coarse: bool, rng: random.Random
) -> Any:
    """Return an interval as the engine gives it; histograms in a ``coarse`` one only."""
    from pgdyno.record import _interval_rows as rows

    began_ns = recorder.started_ns + second * 1_000_000_000
    done = round(rng.gauss(1000, 50)) * length.fine_s
    times = _times(rng.randrange(_HISTOGRAMS)) if coarse else b""
    counts = {**dict.fromkeys(rows.SCRIPT_COUNTS, 0), **dict.fromkeys(("intended", "done"), done)}
    scripts = [
        {"group": "web", "script": name, **counts, **dict.fromkeys(rows.SCRIPT_HISTOGRAMS, times)}
        for name in _SCRIPTS
    ]
    group = {
        "group": "web",
        **dict.fromkeys(rows.GROUP_COUNTS, 32),
        **dict.fromkeys(rows.GROUP_HISTOGRAMS, b""),
    }
    statements = [
        {
            "group": "web",
            "script": script,
            "position": position,
            "statement": text,
            "done": done * length.coarse_s // length.fine_s,
            "failed": 0,
            "service": times,
        }
        for script in _SCRIPTS
        for position, text in enumerate(_STATEMENTS)
    ]
    thread = {**dict.fromkeys(rows.THREAD_COUNTS, 1000), "send_late": times}
    return {
        "started_ns": began_ns,
        "ended_ns": began_ns + length.fine_s * 1_000_000_000,
        "tag": recorder.current_slice,
        "scripts": scripts,
        "groups": [group],
        "statements": statements if coarse else [],
        "errors": [],
        "threads": [thread] if coarse else [],
    }


@cache
def _times(seed: int) -> bytes:
    rng, histogram = random.Random(seed), Histogram()
    for _ in range(200):
        histogram.record(round(rng.lognormvariate(14.5, 0.8)), 5)
    return histogram.encode()


def fine_rows(second: int, length: Length) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of probes with one row, by table."""
    busy_ms = 3000.0 * second
    return {
        "metric_host": [
            {
                "cpu_user_ms": busy_ms, "cpu_system_ms": busy_ms / 2, "cpu_iowait_ms": 0.0,
                "cpu_steal_ms": 0.0, "cpu_idle_ms": 8000.0 * second - 1.5 * busy_ms,
                "procs_running": 5, "dirty_bytes": 0, "writeback_bytes": 0,
                "pressure_io_some_us": second,
            }
        ],
        "metric_database": [{"xact_commit": 2000 * second, "tup_updated": 14_000 * second}],
        "metric_wal": [{"wal_bytes": 10**6 * second, "wal_records": 10**4 * second,
                        "wal_fpi": 10 * second}],
        "metric_checkpointer": [{"num_timed": second // 300}],
    }  # fmt: skip


def coarse_rows(
    recorder: Recorder, second: int, length: Length, rng: random.Random
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the other probes, by table."""
    waits = [
        {
            "ticks": 20 * length.coarse_s, "backend_type": "client backend", "state": "active",
            "wait_event_type": kind, "wait_event": event, "count": rng.randrange(1, 30),
            "statement_id": recorder.statement_id(text.replace(":delta", "$1")),
        }
        for kind, event in _WAITS
        for text in _STATEMENTS
    ]  # fmt: skip
    return {
        "wait_sample": waits,
        "metric_table": [
            {"relation": f"public.shop_{n}", "n_tup_upd": 700 * second, "n_tup_hot_upd": 9 * second}
            for n in range(_TABLES)
        ],
        "metric_process": [
            {"role": "client backend", "count": 32, "cpu_user_ms": 2000.0 * second,
             "cpu_system_ms": 0.0}
        ],
        "metric_program": [
            {"whose": "other", "program": f"program-{n}", "count": 1, "cpu_ms": float(second)}
            for n in range(30)
        ]
        + [
            {"whose": "machine", "program": name, "count": 99, "cpu_ms": cores * 1000.0 * second}
            for name, cores in ((CORES_BUSY, 4.5), (CORES_ALL, 8.0))
        ],
    }  # fmt: skip


def measured() -> Iterator[tuple[Length, float, float, int]]:
    """Yield each length with the seconds of its diagnosis and its page, and the bytes of its
    file."""
    with tempfile.TemporaryDirectory() as directory:
        for length in LENGTHS:
            path = Path(directory) / f"{length.seconds}.db"
            write(path, length)
            yield length, seconds_of(DIAGNOSIS, path), seconds_of(PAGE, path), path.stat().st_size


def seconds_of(code: str, path: Path) -> float:
    """Return the seconds of CPU that a process of its own prints."""
    words = [sys.executable, "-c", code, str(path)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    for length, seconds, page_s, size in measured():
        print(
            f"{length.name}: {seconds:.2f} s (at most {length.required_s:g} s required), page"
            f" {page_s:.2f} s (at most {length.page_required_s:g} s), {size / 1e6:.0f} MB"
        )
