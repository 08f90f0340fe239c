"""Checks whether a soak measured what it was to measure, from its run file: the load generator was
not the limit, no errors but expected ones, connections as intended, the ledger adds up."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.diagnose.words import counted, percent
from pgdyno.record import RunFile
from pgdyno.record.void import connected
from pgdyno.results.soak import ValidityCheck
from pgdyno.spec.connections import kept_connections

CPU_SHARE_MAX = 0.9
"""Share of its core from which a thread of the load engine is no longer sure to be on time."""
UNCONNECTED_SHARE_MAX = 0.01
"""Share of the clients' time without a connection: a reconnect now and then changes nothing."""


def validity(run: RunFile, slice_ids: list[int]) -> tuple[ValidityCheck, ...]:
    """Return the checks over the measured slices."""
    return (
        _generator(run, slice_ids),
        _errors(run, slice_ids),
        *_connections(run, slice_ids),
        _ledger(run),
    )


def _generator(run: RunFile, slice_ids: list[int]) -> ValidityCheck:
    rows = run.series("metric_generator", slice_ids)
    cpu_us = rows["cpu_user_us"] + rows["cpu_system_us"]
    # Of a short interval, the clock's ticks are too coarse.
    whole = rows["duration_ms"] >= 900
    shares = cpu_us[whole] / (1000 * rows["duration_ms"][whole])
    if not len(shares):
        return ValidityCheck(
            name="generator", passed=None, sentence="the CPU of the load engine was not measured"
        )
    highest, mean = float(shares.max()), float(cpu_us.sum() / (1000 * rows["duration_ms"].sum()))
    passed = highest < CPU_SHARE_MAX
    return ValidityCheck(
        name="generator",
        passed=passed,
        sentence=f"a thread of the load engine used {percent(mean)} of a core on average and"
        f" {percent(highest)} at most"
        + ("" if passed else f"; from {percent(CPU_SHARE_MAX)} on it may be the limit"),
    )


def _errors(run: RunFile, slice_ids: list[int]) -> ValidityCheck:
    errors = [error for error in run.errors(slice_ids) if not error.retried]
    injected = sum(error.count for error in errors if error.expected)
    others = [error for error in errors if not error.expected]
    count = sum(error.count for error in others)
    said = f"{counted(injected, 'expected error', 'expected errors')}"
    if others:
        said += f", and {counted(count, 'other', 'others')}, most often {others[0].words}"
    else:
        said += " and no others"
    return ValidityCheck(name="errors", passed=not others, sentence=said)


def _connections(run: RunFile, slice_ids: list[int]) -> Iterator[ValidityCheck]:
    kept = kept_connections(run.run.spec)
    shares: dict[str, list[tuple[float, float]]] = {}
    expected: dict[str, int] = {}
    for each in (run.slice(number) for number in slice_ids):
        lasted_ms = float((each.ended_ms or each.started_ms) - each.started_ms)
        for group in connected(run, each, kept):
            shares.setdefault(group.group, []).append((group.unconnected_share, lasted_ms))
            expected[group.group] = group.expected
    for name, parts in shares.items():
        whole_ms = sum(lasted_ms for _, lasted_ms in parts)
        share = sum(part * ms for part, ms in parts) / whole_ms if whole_ms else 0.0
        yield ValidityCheck(
            name="connections",
            passed=share <= UNCONNECTED_SHARE_MAX,
            sentence=f"{name}: of {counted(expected[name], 'connection', 'connections')}"
            f" {percent(1 - share)} of the time were open",
        )


def _ledger(run: RunFile) -> ValidityCheck:
    ledger = run.ledger()
    said = "the ledger adds up" if ledger.balanced else "the ledger does not add up"
    return ValidityCheck(name="ledger", passed=ledger.balanced, sentence=said)
