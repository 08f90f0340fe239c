"""Watching a server: a check every few seconds, with one set of probes, until the user stops it.

A server that does not answer meanwhile is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
from msgspec import Struct

from pgdyno.check._judging import Judgement, judge
from pgdyno.check._reach import Reached, Where, reach
from pgdyno.check._result import Seen, check_result, findings_of, observed_load
from pgdyno.check._run_file import new_recorder, take_all_looks, temporary_run_file
from pgdyno.check._window import Window
from pgdyno.conduct.watch import Watcher
from pgdyno.diagnose import diagnose
from pgdyno.errors import PgdynoError
from pgdyno.record import Recorder, RunFile
from pgdyno.results.check import CheckResult

ROUNDS_PER_FILE = 120
"""Rounds after which the temporary run file is begun again, and looks are taken again."""


class Watch(Struct, frozen=True):
    """A server to watch, and the time between reports."""

    where: Where
    every_s: float


class Away(Struct, frozen=True):
    """A period in which the server was not seen."""

    why: str


def watch(asked: Watch, watcher: Watcher) -> Iterator[CheckResult | Away]:
    """Yield the result of each period, without an end. Raises PgdynoError when the server cannot be
    reached at the beginning."""
    reached: Reached | None = reach(asked.where, watcher.note)
    while True:
        try:
            reached = reached or reach(asked.where, watcher.note)
            yield from _of_one_file(asked, reached, watcher)
        except (PgdynoError, psycopg.Error) as problem:
            reached = None
            yield Away(problem.message if isinstance(problem, PgdynoError) else str(problem))
            time.sleep(asked.every_s)


def _of_one_file(asked: Watch, reached: Reached, watcher: Watcher) -> Iterator[CheckResult]:
    with temporary_run_file() as path:
        recorder = new_recorder(path, reached)
        try:
            yield from _rounds(asked, reached, recorder, watcher)
        finally:
            recorder.close()


def _rounds(
    asked: Watch, reached: Reached, recorder: Recorder, watcher: Watcher
) -> Iterator[CheckResult]:
    take_all_looks(reached, recorder)
    with RunFile(recorder.path) as run:
        judgement = judge(run)
    with Window(reached, recorder, watcher.note) as window:
        for _ in range(ROUNDS_PER_FILE):
            began_s = time.monotonic()
            slice_id = window.watch(asked.every_s)
            recorder.flush()
            with RunFile(recorder.path) as run:
                yield _result(run, slice_id, judgement, time.monotonic() - began_s)


def _result(run: RunFile, slice_id: int, judgement: Judgement, seconds: float) -> CheckResult:
    seen = Seen(diagnose(run, [slice_id]), judgement)
    load = observed_load(run, [slice_id])
    findings = findings_of(run, load, seen)
    return check_result(run, load, seen, findings, kept=False, seconds=seconds)
