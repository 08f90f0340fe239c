"""The load of others in the window of a check: waits of its sessions, and its statements."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.diagnose import SeenStatement, observed
from pgdyno.record import RunFile
from pgdyno.results.check import BusyStatement, ObservedLoad, WaitEvent
from pgdyno.trial.result import costliest_of

STATEMENTS_MAX = 10
WAITS_MAX = 12
BUSY_SHARE = 0.001
"""Least time of a statement that is listed, in sessions."""
LETTERS_MAX = 300


def observed_load(run: RunFile, slice_ids: list[int]) -> ObservedLoad:
    """Return the load of others in the slices."""
    seen = observed(run, slice_ids)
    busy = [each for each in seen.statements if _is_busy(each, seen.seconds)][:STATEMENTS_MAX]
    return ObservedLoad(
        transactions_s=None
        if seen.transactions_s is None
        else numbers.rounded(seen.transactions_s),
        sessions=seen.sessions,
        at_work=None if seen.waits is None else numbers.rounded(sum(seen.waits.values())),
        cores=seen.cores,
        samplings=run.samplings(slice_ids),
        waits=tuple(
            WaitEvent(event=event, sessions=numbers.rounded(sessions))
            for event, sessions in _largest(seen.waits or {}, WAITS_MAX)
            if sessions > 0
        ),
        statements=tuple(_statement(each, seen.seconds) for each in busy),
        costliest=costliest_of(run, slice_ids),
    )


def _largest(sessions: dict[str, float], most: int) -> list[tuple[str, float]]:
    return sorted(sessions.items(), key=lambda item: -item[1])[:most]


def _statement(each: SeenStatement, seconds: float) -> BusyStatement:
    counted = each.counted
    if counted is None or not seconds:
        rates = dict.fromkeys(("calls_s", "mean_ms", "wal_bytes_s", "blocks_read_s"))
        return BusyStatement(statement=each.text[:LETTERS_MAX], sessions=each.sessions, **rates)
    return BusyStatement(
        statement=each.text[:LETTERS_MAX],
        sessions=each.sessions,
        calls_s=numbers.rounded(counted.calls / seconds),
        mean_ms=numbers.rounded(counted.exec_ms / counted.calls),
        wal_bytes_s=numbers.rounded(counted.wal_bytes / seconds),
        blocks_read_s=numbers.rounded(counted.blocks_read / seconds),
    )


def _is_busy(each: SeenStatement, seconds: float) -> bool:
    by_count = each.counted is not None and each.counted.exec_ms >= BUSY_SHARE * 1000 * seconds
    return by_count or (each.sessions or 0.0) >= BUSY_SHARE
