"""Checks of a measurement's trustworthiness: one function for each reason to distrust it.

The reasons are in the result, in the summary and on the page, and the exit status is 4.
``doubts`` are those that need no result: other programs, other load, and gaps of the probes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pgdyno.facts.denied_time import other_programs_of
from pgdyno.facts.failures import failures, failures_by_group, failures_max, too_many
from pgdyno.facts.other_load import foreign_load
from pgdyno.numbers import percent
from pgdyno.probe.gaps import NOT_SAMPLED, Probe
from pgdyno.record import RunFile, Slice, SliceKind, TrialKind
from pgdyno.record.events import ProbeState
from pgdyno.record.failures import complete_failure
from pgdyno.record.finding import Finding
from pgdyno.record.void import VOID_SHARE_MAX, void_share

GAPS_SHARE_MAX = 0.1
"""Largest share of the measured time for which a probe may have no data. A rule needs a share
of at least 15 %, so a shorter gap cannot hide one."""
_WITHOUT_ANSWER = frozenset({"front-accept-queue", "unanswered-clients"})
"""Findings on clients whose waits are in no response time."""
Check = Callable[[RunFile, Sequence[Finding]], Iterator[str]]


def doubts(run: RunFile) -> list[str]:
    """Return the reasons, over all measured slices; empty if there are none."""
    measured = [part.id for part in run.slices() if part.kind.is_measured]
    if not measured:
        return []
    return [*_of_programs(run, measured), *_of_load(run, measured), *_of_gaps(run, measured)]


def _of_programs(run: RunFile, slice_ids: list[int]) -> list[str]:
    others = other_programs_of(run, slice_ids)
    if others is None or not others.causes_distrust:
        return []
    several = len({part.kind for part in run.slices() if part.id in set(slice_ids)}) > 1
    return [f"{'over all slices, ' if several else ''}{others.sentence}"]


def _of_load(run: RunFile, slice_ids: list[int]) -> list[str]:
    load = foreign_load(run, slice_ids)
    return [load.sentence] if load is not None and load.causes_distrust else []


def _of_gaps(run: RunFile, slice_ids: list[int]) -> list[str]:
    """Return a sentence for each probe without data for too much of the measured time."""
    spans = [
        (part.started_ms, part.ended_ms)
        for part in run.slices()
        if part.id in set(slice_ids) and part.ended_ms is not None
    ]
    measured_ms = sum(ended - started for started, ended in spans)
    lost_ms: dict[Probe, float] = {}
    reasons: dict[Probe, str] = {}
    for probe, gap, reason in _gaps(run):
        lost_ms[probe] = lost_ms.get(probe, 0.0) + sum(_overlap(gap, span) for span in spans)
        reasons[probe] = reason
    return [
        f"{NOT_SAMPLED[probe]} for {percent(ms / measured_ms)} of the measured time:"
        f" {reasons[probe]}"
        for probe, ms in lost_ms.items()
        if ms > GAPS_SHARE_MAX * measured_ms
    ]


def _gaps(run: RunFile) -> Iterator[tuple[Probe, tuple[float, float], str]]:
    """Yield the probe, the period in ms and the reason of each gap; a gap without an end lasts
    until the end of the run."""
    still_open: dict[Probe, tuple[float, str]] = {}
    for event in run.events("probe"):
        probe, away_ms = event.detail.get("probe"), event.detail.get("away_ms")
        if probe not in NOT_SAMPLED:
            continue
        reason = event.detail.get("reason") or event.label
        if ProbeState.AWAY.is_of(event):
            still_open[probe] = event.at_ms, reason
        elif away_ms is not None:
            still_open.pop(probe, None)
            yield probe, (event.at_ms - away_ms, event.at_ms), reason
    for probe, (began_ms, reason) in still_open.items():
        yield probe, (began_ms, math.inf), reason


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


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
    slices = run.slices(SliceKind.RUN)
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


def _unanswered(_: RunFile, findings: Sequence[Finding]) -> Iterator[str]:
    """A client without an answer has no response time, so that no figure shows it."""
    for found in findings:
        if found.id in _WITHOUT_ANSWER and found.status == "found":
            yield f"clients were left without an answer: {found.sentence}"


def _build(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    if run.run.engine.get("profile") == "debug":
        yield "the load engine is a debug build"


def _doubts(run: RunFile, _: Sequence[Finding]) -> Iterator[str]:
    yield from doubts(run)


CHECKS: tuple[Check, ...] = (
    *(_void_slices, _nothing_done, _failures, _ledger, _inconsistent, _generator),
    *(_unanswered, _build, _doubts),
)


def _measured(run: RunFile) -> dict[str, list[Slice]]:
    """Return the slices that figures are made of, by side. Failures under a remedy that is being
    tried count against the remedy, not against the measurement."""
    sound = [each for each in run.slices() if each.void is None and not each.kind.may_fail]
    compared = {
        trial.id for trial in run.trials() if trial.kind in (TrialKind.COMPARE, TrialKind.LEVELLED)
    }
    plain = [each for each in sound if each.side != "b"]
    changed = [each for each in sound if each.side == "b" and each.trial_id in compared]
    return {" without the change" if changed else "": plain, " with the change": changed}
