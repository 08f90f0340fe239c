"""Checks of a measurement's trustworthiness: one function for each reason to distrust it.

The reasons are in the result, in the summary and on the page, and the exit status is 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pgdyno.diagnose import Finding
from pgdyno.diagnose.facts.failures import failures, failures_by_group, failures_max, too_many
from pgdyno.diagnose.words import percent
from pgdyno.record import RunFile, Slice
from pgdyno.record.failures import complete_failure
from pgdyno.record.void import VOID_SHARE_MAX, void_share
from pgdyno.trial._doubts import doubts

_NO_SIDE = ("ramp", "point", "storm", "age", "recovery", "wal")
"""Kinds of slices whose failures do not concern the measurement: a point of the search for the knee
at which transactions fail is one that is too high, failures are what a storm and the age of a
server are about, and what only counts WAL is of one side and then of the other."""
Check = Callable[[RunFile, Sequence[Finding]], Iterator[str]]


def distrust(run: RunFile, findings: Sequence[Finding]) -> list[str]:
    """Return the reasons why the measurement cannot be trusted; empty if there are none."""
    return [reason for check in CHECKS for reason in check(run, findings)]


def check_something_succeeded(run: RunFile) -> None:
    """Raise RunError if no transaction succeeded."""
    failure = complete_failure(run)
    if failure is not None:
        raise failure


def _void_slices(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    """Check only a single run: a trial measures void slices again. Of a run in several slices, a
    small part may be void."""
    slices = run.slices(kind="run")
    reasons = dict.fromkeys(each.void for each in slices if each.void is not None)
    if len(slices) < 2:
        yield from reasons
    elif (share := void_share(slices)) > VOID_SHARE_MAX or all(each.void for each in slices):
        yield (
            f"{percent(share)} of the time is in void slices, more than {percent(VOID_SHARE_MAX)}:"
            f" {'; '.join(reasons)}"
        )


def _failures(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    """Check each client group, and all clients together if every group is within the limit."""
    limit = failures_max(run)
    for side, slices in _measured(run).items():
        if not slices:
            continue
        ids = [each.id for each in slices]
        by_group = failures_by_group(run, ids)
        bad = {group: failed for group, failed in by_group.items() if too_many(failed, limit)}
        for group, failed in bad.items():
            of_group = f"the transactions of client group {group}{side}"
            yield f"more than {limit} of {of_group} failed: {failed}"
        failed = failures(run, ids)
        if not bad and too_many(failed, limit):
            yield f"more than {limit} of the transactions{side} failed: {failed}"


def _nothing_done(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    if run.ledger().done == 0:
        first = next(iter(run.errors()), None)
        why = f": {first.count:,} × {first.words}" if first else ""
        yield f"no transaction was completed{why}"


def _ledger(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    if not run.ledger().balanced:
        yield "the ledger does not add up"


def _inconsistent(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    for event in run.events("consistency"):
        broken = {rule: count for rule, count in event.detail["broken"].items() if count}
        if broken:
            listed = "; ".join(f"{count:,} {rule}" for rule, count in broken.items())
            yield f"the {event.label} do not agree after the load: {listed}"


def _generator(_: RunFile, findings: Sequence[Finding]) -> Iterator[str]:
    if any(f.id == "client-limited" and f.status == "found" for f in findings):
        yield "the load generator was the limit"


def _build(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    if run.run.engine.get("profile") == "debug":
        yield "the load engine is a debug build"


def _doubts(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    yield from doubts(run)


CHECKS: tuple[Check, ...] = (
    *(_void_slices, _nothing_done, _failures, _ledger, _inconsistent, _generator, _build),
    *(_doubts,),
)


def _measured(run: RunFile) -> dict[str, list[Slice]]:
    """Return the slices that figures are made of, by side. Failures under a remedy that is being
    tried count against the remedy, not against the measurement."""
    sound = [each for each in run.slices() if each.void is None and each.kind not in _NO_SIDE]
    compared = {trial.id for trial in run.trials() if trial.kind in ("compare", "levelled")}
    plain = [each for each in sound if each.side != "b"]
    changed = [each for each in sound if each.side == "b" and each.trial_id in compared]
    return {" without the change" if changed else "": plain, " with the change": changed}
