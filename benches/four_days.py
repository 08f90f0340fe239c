"""``python -m benches.four_days``: a run file of four days by the second, and its report.

345,600 intervals of a load of two scripts with seven statements each, with the rows of its probes,
go through a recorder, and are rolled up as in a run of that length: after each simulated minute, as
far as the recorder's own thread would come. Printed are the size of the file, the largest that it
was meanwhile, and the seconds that its page and its diagnosis take.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benches import diagnosing
from pgdyno.record import Recorder, SliceKind
from pgdyno.record._rollup import RollUp

_PROBES_S = 5
"""Seconds between samples of tables, waits and processes."""
_SIZE_MAX_MB, _PAGE_S_MAX = 200, 5


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.four_days", description=__doc__)
    parser.add_argument("--hours", type=float, default=96.0, help="simulated time")
    given = parser.parse_args(argv)
    seconds = round(3600 * given.hours)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.db"
        began_s = time.monotonic()
        largest = _write(path, seconds)
        took_s = time.monotonic() - began_s
        page_s, diagnosis_s = (
            diagnosing.seconds_of(code, path) for code in (diagnosing.PAGE, diagnosing.DIAGNOSIS)
        )
        size_mb = path.stat().st_size / 1e6
    print(
        f"{seconds:,} intervals: {size_mb:.0f} MB (required: under {_SIZE_MAX_MB}), at most"
        f" {largest / 1e6:.0f} MB while it was recorded; page in {page_s:.2f} s of CPU (required:"
        f" under {_PAGE_S_MAX}), diagnosis in {diagnosis_s:.2f} s; written in {took_s:.0f} s; load"
        f" average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return 0


def _write(path: Path, seconds: int) -> int:
    """Write the run file; return the bytes that it had at most."""
    rng = random.Random(1)
    length = diagnosing.Length("four days", seconds, 1, 1, 0, 0)
    recorder = diagnosing.new_recorder(path, length)
    slice_id = recorder.open_slice(SliceKind.RUN, ns=recorder.started_ns)
    rolling, largest = RollUp(), 0
    recorder.flush()
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    for second in range(seconds):
        _add_second(recorder, second, length, rng)
        if second % 60 == 59:
            recorder.flush()
            while rolling.catch_up(db, 1000 * second):
                pass
            largest = max(largest, path.stat().st_size)
    db.close()
    recorder.close_slice(slice_id, ns=recorder.started_ns + seconds * 1_000_000_000)
    recorder.finish("done")
    return largest


def _add_second(
    recorder: Recorder, second: int, length: diagnosing.Length, rng: random.Random
) -> None:
    recorder.add_interval(diagnosing.interval_of(recorder, second, length, coarse=True, rng=rng))
    rows = diagnosing.fine_rows(second, length)
    if second % _PROBES_S == 0:
        rows |= diagnosing.coarse_rows(recorder, second, length, rng)
    for table, of_table in rows.items():
        recorder.add_rows(table, of_table, ns=recorder.started_ns + second * 1_000_000_000)


if __name__ == "__main__":
    sys.exit(main())
