"""A check from start to end: reach the server, look, record a window, judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from pgdyno.check._judging import judge
from pgdyno.check._reach import Reached, Where, reach
from pgdyno.check._result import Seen, check_result, findings_of, observed_load
from pgdyno.check._run_file import new_recorder, take_all_looks, temporary_run_file
from pgdyno.check._window import Window
from pgdyno.check._write_probe import take_write_probe
from pgdyno.conduct import stop_signals
from pgdyno.conduct.watch import Watcher
from pgdyno.diagnose import diagnose
from pgdyno.record import Recorder, RunFile
from pgdyno.results import store
from pgdyno.results.check import CheckResult


class CheckRequest(Struct, frozen=True):
    """A server to check, and the time for it."""

    where: Where
    seconds: float
    """Length of the window."""
    path: Path | None
    """The run file to keep; None: none is kept."""
    write_probe: bool = False
    """Commit into a table of its own, and measure how long that takes."""


def check(
    request: CheckRequest, watcher: Watcher, finished: Callable[[Path], None] | None = None
) -> CheckResult:
    """Look at a server without loading it, and return the findings. Nothing is written on it
    unless the write probe was asked for. ``finished`` is called with the run file before one that
    is not to be kept is removed."""
    began_s = time.monotonic()
    watcher.phase("connecting")
    reached = reach(request.where, watcher.note)
    with stop_signals(), _run_file(request.path) as path:
        recorder = new_recorder(path, reached)
        try:
            _look(reached, recorder, watcher)
            if request.write_probe:
                watcher.phase("committing rows into a table of pgdyno's own")
                take_write_probe(reached, recorder, watcher.note)
            watcher.phase(f"watching the load for {request.seconds:g} s", request.seconds)
            with Window(reached, recorder, watcher.note) as window:
                slice_id = window.watch(request.seconds)
            take_all_looks(reached, recorder, again=True)
            with RunFile(path) as run:
                diagnosis = diagnose(run, [slice_id])
                named = [each.id for each in diagnosis.findings if each.status == "found"]
                seen = Seen(diagnosis, judge(run, named))
                load = observed_load(run, [slice_id])
                findings = findings_of(run, load, seen)
                for finding in findings:
                    recorder.add_finding(finding)
                seconds = time.monotonic() - began_s
                kept = request.path is not None
                result = check_result(run, load, seen, findings, kept=kept, seconds=seconds)
            store(recorder, result)
            recorder.finish("done")
        finally:
            recorder.close()
        if finished is not None:
            finished(path)
    return result


def _look(reached: Reached, recorder: Recorder, watcher: Watcher) -> None:
    """Take all looks, and show their findings at once."""
    watcher.phase("looking at settings, catalogs and statistics")
    take_all_looks(reached, recorder)
    with RunFile(recorder.path) as run:
        for finding in judge(run).findings:
            if finding.status == "found" and finding.severity != "minor":
                watcher.step(f"{finding.severity}: {finding.sentence}")


@contextmanager
def _run_file(path: Path | None) -> Iterator[Path]:
    """Yield the path of the run file; one that is not to be kept is removed."""
    if path is not None:
        yield path
        return
    with temporary_run_file() as path:
        yield path
