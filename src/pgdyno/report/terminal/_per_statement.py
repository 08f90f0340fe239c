"""Latency and failures of every statement, in order, as ``pgbench -r`` prints them."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.facts.statement_times import time_notes
from pgdyno.record import RunFile, SliceKind, StatementTotal
from pgdyno.report.words.accounts import untouched_words


def statement_lines(run: RunFile) -> Iterator[str]:
    """Yield a table for each script of each group, over the measured slices."""
    totals = run.statements(run.valid_slices(SliceKind.RUN))
    several_groups = len({total.client_group for total in totals}) > 1
    yield "statement latencies in milliseconds (mean, p99), done and failed:"
    for group, script in dict.fromkeys((t.client_group, t.script) for t in totals):
        yield f"{group}: {script}" if several_groups else script
        of_script = [t for t in totals if (t.client_group, t.script) == (group, script)]
        for total in sorted(of_script, key=lambda total: total.position):
            yield _line(total)
    for note in time_notes(run, totals):
        yield f"({note})"
    if untouched := untouched_words(totals):
        yield f"({untouched})"


def _line(total: StatementTotal) -> str:
    mean, p99 = total.service.mean / 1e6, total.service.percentile(99) / 1e6
    times = f"{mean:>12.3f} {p99:>12.3f}" if total.service.count else f"{'—':>12} {'—':>12}"
    return f"{times} {total.done:>12,} {total.failed:>10,}  {total.statement}"
