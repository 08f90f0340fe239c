"""Reasons why a drill proves nothing: no cut, outside interference, no fault, nothing to lose."""

from __future__ import annotations

from pgdyno.drill._evidence import disturbed_from_outside
from pgdyno.drill.model import in_words
from pgdyno.errors import ThresholdError, TrustError
from pgdyno.record import RunFile
from pgdyno.results.drill import Drill


def check_drilled(result: Drill, run: RunFile) -> None:
    """Raise TrustError for a drill that cannot be trusted, ThresholdError for a loss that is worse
    than documented."""
    problem = untrusted(result, run) or beyond_bound(result)
    if problem is not None:
        raise problem


def untrusted(result: Drill, run: RunFile) -> TrustError | None:
    """Return the error if ``result``, recorded in ``run``, proves nothing about a crash."""
    if not result.cuts:
        return TrustError(
            "no cut was made, so nothing is known", code="no-cut", hint="raise --budget or omit it"
        )
    disturbed = [cut.facts["disturbed"] for cut in result.cuts if "disturbed" in cut.facts]
    if disturbed:
        scope = f"{len(disturbed)} of {len(result.cuts)} cuts"
        return disturbed_from_outside(disturbed[0], scope)
    if result.fault_missing:
        missing = sum(cut.outcome == "no-fault" for cut in result.cuts)
        return TrustError(
            f"the fault did not happen in {missing} of {len(result.cuts)} cuts, so nothing is known"
            " of them",
            code="no-fault",
            hint="--sham was given"
            if result.sham
            else f"pgdyno show {result.run_file} shows the reason",
        )
    if result.nothing_acked and all(cut.outcome == "clean" for cut in result.cuts):
        return TrustError(
            "no transaction was acknowledged before a fault, so nothing could be lost"
            f"{_first_error(run)}",
            code="nothing-acked",
            hint="use a longer --load, or another script",
        )
    return None


def beyond_bound(result: Drill) -> ThresholdError | None:
    """Return the error if a cut lost more than the documentation of its settings allows."""
    worse = result.worse_than_bound()
    if not worse:
        return None
    return ThresholdError(
        f"worse than documented in {len(worse)} of {len(result.cuts)} cuts; cut"
        f" {worse[0].number}: {in_words(worse[0])}",
        code="worse-than-documented",
        hint=f"documented: {result.bound}",
    )


def _first_error(run: RunFile) -> str:
    """Return the most frequent error of failed transactions; '' if none failed."""
    first = next(iter(run.errors()), None)
    return f": {first.count:,} × {first.sqlstate} {first.message}" if first else ""
