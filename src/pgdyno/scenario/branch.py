"""The procedure of ``pgdyno branch``: a state is saved once, and each branch measured from it in
every round, in an order that rotates from round to round; and its answer in a sentence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.conduct import Session, measure_with_events, warm_up_seconds_max
from pgdyno.dimension import title_of
from pgdyno.errors import RunError, TrustError
from pgdyno.record import Distribution, RunFile, SliceKind
from pgdyno.results import store
from pgdyno.results.branch import (
    BranchEvent,
    BranchFigures,
    BranchMatch,
    BranchOwnEffect,
    BranchResult,
    BranchStart,
    BranchState,
)
from pgdyno.scenario._branch_matching import LevelToMatch, match_clients
from pgdyno.scenario._branch_state import Restored, SavedState
from pgdyno.scenario.branch_variants import BranchVariant
from pgdyno.spec import Change
from pgdyno.spec import branches as spec_branches
from pgdyno.trial.noise import group_effect_of
from pgdyno.trial.result import ci95, effect_of, head, latency_effect_of
from pgdyno.trial.rounds import Rounds, effect_within, judge_rounds, mean_of, throughputs_tps

_CANCELLED = "57014"
"""SQLSTATE of a statement that had not ended when the measurement did."""
_TRIES_MAX = 3
"""Measurements of a branch in a round, if the first ones are void."""


class _Measurement(Struct, frozen=True):
    """A measurement of a branch: what it began with, and its slices."""

    round: int
    restored: Restored
    slice_ids: Sequence[int]
    """The slice before the first event, if there is one, and the one from then on."""

    @property
    def main(self) -> int:
        """The slice from the first event on."""
        return self.slice_ids[-1]


@dataclass
class _MeasuredBranch:
    """All measurements of a branch."""

    variant: BranchVariant
    match: BranchMatch | None = None
    measurements: list[_Measurement] = field(default_factory=list)

    @property
    def rounds(self) -> Rounds:
        """The slices from the first event of any branch on."""
        return Rounds(self.variant.change, [each.main for each in self.measurements])

    @property
    def leads(self) -> Rounds:
        """The slices before it."""
        ids = [each.slice_ids[0] for each in self.measurements if len(each.slice_ids) > 1]
        return Rounds(self.variant.change, ids)


def run_branches(session: Session, variants: Sequence[BranchVariant]) -> BranchResult:
    """Save the state, measure all branches from it, and record and return the result."""
    began_s = time.monotonic()
    for variant in variants:
        session.provide(variant.change)
    before_s = session.spec.branching.before_ms / 1000
    if before_s:
        session.watcher.phase("load before the state is saved", before_s)
        session.start_load()
        session.wait_connected()
        with session.measured(SliceKind.BEFORE):
            session.wait(before_s)
        session.interrupt_load()
    session.watcher.phase("saving the state")
    state = SavedState(session)
    measured = [_MeasuredBranch(variant) for variant in variants]
    rounds = session.spec.branching.rounds
    for number in range(1, rounds + 1):
        for each in _rotated(measured, number - 1):
            name = each.variant.branch.name
            session.watcher.phase(f"round {number} of {rounds}: {name}")
            if each.variant.branch.match is not None and each.match is None:
                _match(session, state, each, measured)
            each.measurements.append(_measure(session, state, each.variant, number))
    result = _result(session, state, measured, elapsed_s=time.monotonic() - began_s)
    store(session.recorder, result)
    return result


def _match(
    session: Session, state: SavedState, each: _MeasuredBranch, measured: Sequence[_MeasuredBranch]
) -> None:
    """Find the clients of a branch that matches another one, which this round has measured."""
    other = next(one for one in measured if one.variant.branch.name == each.variant.branch.match)
    run, spec = session.reader(), session.spec
    (tps,), before = (throughputs_tps(run, spec, rounds) for rounds in (other.rounds, other.leads))
    level = LevelToMatch(other.variant.branch.name, before[0] if before else None, tps)
    lead_ms = spec_branches.first_event_ms(spec.branches)
    state.restore()
    change, each.match = match_clients(session, each.variant.change, level, lead_s=lead_ms / 1000)
    each.variant = replace(each.variant, change=change, title=title_of(change, spec))


def _rotated(measured: Sequence[_MeasuredBranch], by: int) -> list[_MeasuredBranch]:
    """Return the branches, the one at ``by`` first: none is always after the same other one's
    dirty pages, or always last."""
    start = by % len(measured)
    return [*measured[start:], *measured[:start]]


def _measure(
    session: Session, state: SavedState, variant: BranchVariant, number: int
) -> _Measurement:
    """Measure a branch from the saved state, again if that is void. Raises TrustError."""
    lead_ms = spec_branches.first_event_ms(session.spec.branches)
    limit_s = warm_up_seconds_max(session.spec.load.hold_ms / 1000)
    for _ in range(_TRIES_MAX):
        restored = state.restore()
        session.apply(variant.change, warm_up_s_max=limit_s)
        ids = measure_with_events(session, variant.branch.events, lead_ms=lead_ms)
        session.interrupt_load()
        session.prepare(Change())
        run = session.reader()
        _require_statements(run, variant, ids)
        reasons = [why for slice_id in ids if (why := run.slice(slice_id).void)]
        if not reasons:
            return _Measurement(number, restored, ids)
    raise TrustError(
        f"branch {variant.branch.name}: {_TRIES_MAX} measurements in a row were void: {reasons[0]}",
        code="branch-void",
    )


def _require_statements(run: RunFile, variant: BranchVariant, ids: Sequence[int]) -> None:
    """Raise RunError if a statement of the branch failed by itself: what was measured is not what
    was asked for."""
    began_ms = run.slice(ids[0]).started_ms
    for warning in run.events("warning"):
        statement = warning.detail.get("statement")
        failed = statement is not None and warning.at_ms >= began_ms
        if failed and warning.detail["sqlstate"] != _CANCELLED:
            raise RunError(
                f"branch {variant.branch.name}: {statement}: {warning.detail['message']}",
                code="branch-statement",
                hint="execute it on the tables of the load, which are in the database pgdyno",
            )


def _result(
    session: Session, state: SavedState, measured: Sequence[_MeasuredBranch], *, elapsed_s: float
) -> BranchResult:
    run = session.reader()
    first, *others = measured
    figures = [_figures(session, run, first, None, comparisons=len(others))]
    figures += [_figures(session, run, each, first, comparisons=len(others)) for each in others]
    starts = [start for each in figures for start in each.starts]
    fields = {
        "rounds": session.spec.branching.rounds,
        "state": _state(session, run, state),
        "same_state": all(
            (start.rows, start.pages_sha256) == (state.rows, state.pages.sha256) for start in starts
        ),
        "branches": tuple(figures),
        "elapsed_s": round(elapsed_s, 1),
    }
    common = dict(head(run, []))
    result = BranchResult(**common, **fields, sentence="")
    return BranchResult(**common, **fields, sentence=sentence_of(result))


def _state(session: Session, run: RunFile, state: SavedState) -> BranchState:
    disks: Mapping[str, Mapping[str, str]] = run.run.host.get("filesystem") or {}
    return BranchState(
        before_s=session.spec.branching.before_ms / 1000,
        bytes=state.bytes,
        rows=state.rows,
        files=state.pages.files,
        pages_sha256=state.pages.sha256,
        method="clone" if state.clones else "copy",
        file_system=disks.get("data", {}).get("type", "not known"),
        save_seconds=round(state.save_s, 3),
    )


def _figures(
    session: Session,
    run: RunFile,
    each: _MeasuredBranch,
    first: _MeasuredBranch | None,
    *,
    comparisons: int,
) -> BranchFigures:
    """Return the figures of a branch, compared with ``first`` unless it is that."""
    whole, branch = session.spec, each.variant.branch
    tps = throughputs_tps(run, whole, each.rounds)
    lead_tps = throughputs_tps(run, whole, each.leads)
    starts = [
        _start(run, measurement, tps[number], lead_tps[number] if lead_tps else None)
        for number, measurement in enumerate(each.measurements)
    ]
    own = effect_within(lead_tps, tps) if lead_tps else None
    mean_tps, p99_ms = mean_of(tps), mean_of([start.latency_ms_p99 for start in starts])
    lead_mean = mean_of(lead_tps)
    common = {
        "name": branch.name,
        "remark": branch.remark,
        "title": each.variant.title,
        "change": each.variant.change.to_json(),
        "match": each.match,
        "events": tuple(_events(run, each)),
        "throughput_tps": round(mean_tps or 0.0, 2),
        "throughput_tps_before": None if lead_mean is None else round(lead_mean, 2),
        "latency_ms_p99": None if p99_ms is None else round(p99_ms, 3),
        "own_effect": own
        and BranchOwnEffect(throughput_ratio=numbers.rounded(own.ratio), ci95=ci95(own)),
        "starts": tuple(starts),
    }
    if first is None:
        return BranchFigures(
            **common, effect=None, latency_p99=None, compared=None, decision=None, sentence=""
        )
    judged = judge_rounds(run, whole, first.rounds, each.rounds, comparisons=comparisons)
    latency = judged.latency_p99
    return BranchFigures(
        **common,
        effect=effect_of(judged.throughput),
        latency_p99=latency_effect_of(latency),
        compared=judged.measure,
        decision=judged.verdict.outcome,
        sentence=judged.verdict.sentence,
        groups=tuple(group_effect_of(group) for group in judged.groups),
    )


def _start(
    run: RunFile, measurement: _Measurement, tps: float, lead_tps: float | None
) -> BranchStart:
    restored = measurement.restored
    response = run.histogram("response", [measurement.main])
    p99_ns = Distribution.of(response).percentiles_ns[99.0]
    return BranchStart(
        round=measurement.round,
        slice=measurement.main,
        rows=restored.rows,
        pages_sha256=restored.pages.sha256,
        restore_seconds=round(restored.restore_s, 3),
        ready_seconds=round(restored.ready_s, 3),
        throughput_tps=round(tps, 2),
        latency_ms_p99=None if p99_ns is None else round(p99_ns / 1e6, 3),
        throughput_tps_before=None if lead_tps is None else round(lead_tps, 2),
    )


def _events(run: RunFile, each: _MeasuredBranch) -> list[BranchEvent]:
    """Return the branch's events, with how long their statements took."""
    events = _in_order(each.variant)
    took_ms: dict[int, list[float]] = {number: [] for number in range(len(events))}
    measured = {slice_id for one in each.measurements for slice_id in one.slice_ids}
    for done in run.events("sql"):
        if done.slice_id in measured:
            took_ms[done.detail["event"]].append(done.duration_ms or 0.0)
    return [_event(event, took_ms[number]) for number, event in enumerate(events)]


def _in_order(variant: BranchVariant) -> list[spec_branches.BranchEvent]:
    """Return the events of a branch as they follow each other."""
    return sorted(variant.branch.events, key=lambda event: event.at_ms)


def _event(event: spec_branches.BranchEvent, took_ms: Sequence[float]) -> BranchEvent:
    at_s = event.at_ms / 1000
    if event.sql is None:
        words = ", ".join(f"{group}: {n} clients" for group, n in (event.clients or {}).items())
        return BranchEvent(at_s=at_s, action=words, ended=None, seconds=None)
    seconds = round(fmean(took_ms) / 1000, 3) if took_ms else None
    return BranchEvent(at_s=at_s, action=event.sql, ended=len(took_ms), seconds=seconds)


def sentence_of(result: BranchResult) -> str:
    """Return the result: each branch against the first, and the state they began with."""
    first, *others = result.branches
    compared = "; ".join(f"{each.name}: {each.sentence}" for each in others)
    measurements = sum(len(each.starts) for each in result.branches)
    rows = sum(result.state.rows.values())
    began = (
        f"all {measurements} measurements began with the same {rows:,} rows and the same pages"
        if result.same_state
        else "the measurements did not all begin with the same rows and pages"
    )
    return f"against {first.name}, {compared}; {began}"
