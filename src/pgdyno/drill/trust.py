"""Why a drill says nothing: no cut, somebody else's hand, no fault, nothing that could be lost."""

from __future__ import annotations

from pgdyno.drill.model import DrillResult
from pgdyno.drill.words import in_words
from pgdyno.errors import ThresholdError, TrustError
from pgdyno.record import RunFile


def check_drilled(result: DrillResult, run: RunFile) -> None:
    """Raise TrustError for a drill that cannot be trusted, ThresholdError for a loss that is worse
    than documented."""
    problem = untrusted(result, run) or beyond_bound(result)
    if problem is not None:
        raise problem


def untrusted(result: DrillResult, run: RunFile) -> TrustError | None:
    """The error when ``result``, recorded in ``run``, says nothing of what a crash takes; None when
    it does."""
    if not result.cuts:
        return TrustError(
            "no cut was made, so nothing is known", code="no-cut", hint="more --budget, or none"
        )
    disturbed = [cut.facts["disturbed"] for cut in result.cuts if "disturbed" in cut.facts]
    if disturbed:
        return TrustError(
            f"somebody else had a hand in the server in {len(disturbed)} of {len(result.cuts)}"
            f" cuts, so nothing is known of them: {disturbed[0]}",
            code="server-disturbed",
            hint="the kernel's log tells of processes that were killed for want of memory",
        )
    if result.fault_missing:
        missing = sum(cut.outcome == "no-fault" for cut in result.cuts)
        return TrustError(
            f"the fault did not happen in {missing} of {len(result.cuts)} cuts, so nothing is known"
            " of them",
            code="no-fault",
            hint="--sham was given" if result.sham else f"pgdyno show {result.run_file} says why",
        )
    if result.nothing_acked and all(cut.outcome == "clean" for cut in result.cuts):
        return TrustError(
            "no transaction was acknowledged before a fault, so nothing could be lost"
            f"{_first_error(run)}",
            code="nothing-acked",
            hint="a longer --load may help, or another script",
        )
    return None


def beyond_bound(result: DrillResult) -> ThresholdError | None:
    """The error when a cut lost more than the documentation of its settings allows; else None."""
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
    """What most failed transactions failed with; '' when none did."""
    first = next(iter(run.errors()), None)
    return f": {first.count:,} × {first.sqlstate} {first.message}" if first else ""
