"""Words on the findings of a check, for the terminal and the page."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.record.finding import ProvingCommand
from pgdyno.results.check import CheckResult, WriteProbe


def gain_words(proof: ProvingCommand) -> str:
    """Return what a change is predicted to gain."""
    if proof.guards:
        return "prevents a fault"
    ratio = proof.predicted_ratio
    return "gain unknown" if ratio is None else f"predicted {numbers.predicted(ratio)}"


def commit_words(probe: WriteProbe) -> str:
    """Return how long a commit of the write probe takes, and its parts."""
    times = ", ".join(
        f"{name} {numbers.significant(ms)}"
        for name, ms in (("p50", probe.p50_ms), ("p99", probe.p99_ms), ("max", probe.max_ms))
    )
    parts = ", ".join(f"{numbers.significant(each.mean_ms, 2)} {each.part}" for each in probe.parts)
    mean, trip = numbers.significant(probe.mean_ms), numbers.significant(probe.round_trip_p50_ms)
    return (
        f"{probe.commits:,} inserts of one client, each with its commit: {mean} ms on average"
        f" ({parts}), {times} ms; select 1: p50 {trip} ms"
    )


def manner_words(result: CheckResult) -> str:
    """Return what the check did to the server."""
    if result.write_probe is None:
        return "read-only and without a load"
    return "without a load but that of the write probe, into a table of its own"
