"""A period of a server's load as a check records it, for a command that looks at it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.check._judging import judge
from pgdyno.check._reach import Reached
from pgdyno.check._result import Seen, findings_of, observed_load
from pgdyno.check._run_file import new_recorder, take_all_looks, temporary_run_file
from pgdyno.check._window import PACE, Window
from pgdyno.conduct.watch import Watcher
from pgdyno.diagnose import diagnose
from pgdyno.facts.observed import ObservedRun
from pgdyno.record import RunFile
from pgdyno.record.fileformat import CLIENT_BACKENDS, OTHERS_BACKEND
from pgdyno.record.finding import Finding
from pgdyno.results.check import worst_first

_PACE = replace(PACE, tick_share_max=0.001, sample_share_max=0.002)
"""The command has a budget of 1 % of a core for all that it does."""


class Observed(Struct):
    """The view that a check has of a period, complete once that has ended."""

    findings: tuple[Finding, ...] | None = None
    """Those that it reports, the worst first; None until it is complete."""
    cpu_ms: float | None = None
    """CPU time of the sessions of others; None: the server is not on this machine."""
    transactions: int = 0
    """Those of all databases that ended, without those of the check."""
    own_transactions: int = 0


@contextmanager
def observing(reached: Reached, watcher: Watcher) -> Iterator[Observed]:
    """Take the looks of a check, and record its window for as long as the block lasts. Yields what
    was seen, which is complete after the block. Raises SetupError as a check does."""
    found = Observed()
    with temporary_run_file() as path:
        recorder = new_recorder(path, reached)
        try:
            take_all_looks(reached, recorder)
            with (
                Window(reached, recorder, watcher.note, _PACE) as window,
                window.recording() as slice_id,
            ):
                yield found
            take_all_looks(reached, recorder, again=True)
            with RunFile(path) as run:
                found.findings = _findings(run, slice_id)
            with ObservedRun(path) as run:
                _add_load(found, run, slice_id)
        finally:
            recorder.close()


def _findings(run: RunFile, slice_id: int) -> tuple[Finding, ...]:
    diagnosis = diagnose(run, [slice_id])
    named = [each.id for each in diagnosis.findings if each.status == "found"]
    load = observed_load(run, [slice_id])
    return worst_first(findings_of(run, load, Seen(diagnosis, judge(run, named))))


def _add_load(found: Observed, run: ObservedRun, slice_id: int) -> None:
    found.transactions = run.transactions([slice_id])
    found.own_transactions = round(run.delta("metric_load", "own_transactions", [slice_id]) or 0)
    found.cpu_ms = _cpu_ms(run, slice_id)


def _cpu_ms(run: RunFile, slice_id: int) -> float | None:
    """Return the CPU time of sessions: those of others, or where all of them are of pgdyno's own
    load, of all."""
    times = {}
    for role in CLIENT_BACKENDS:
        rises = [
            run.delta("metric_process", column, [slice_id], where={"role": role})
            for column in ("cpu_user_ms", "cpu_system_ms")
        ]
        times[role] = sum(rise for rise in rises if rise is not None)
    return times[OTHERS_BACKEND] or sum(times.values()) or None
