"""Vacuum as a part of the result of a run."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.diagnose.facts.vacuums import Course, Effect, State, vacuum_account
from pgdyno.record import RunFile
from pgdyno.results.vacuum import TableState, TableVacuum, VacuumEffect, VacuumPhase, Vacuums
from pgdyno.stats.words import rounded


def vacuums_of(run: RunFile, slice_ids: Sequence[int]) -> Vacuums | None:
    """Return what is known of vacuum; None if the server was not probed."""
    account = vacuum_account(run, slice_ids)
    if account is None:
        return None
    return Vacuums(
        tables=tuple(_table(each) for each in account.states),
        vacuums=tuple(_vacuum(each) for each in account.courses),
        effect=_effect(account.effect),
        xid_age=account.xid_age,
        mxid_age=account.mxid_age,
        members_share=_rounded(account.members_share),
    )


def _table(each: State) -> TableState:
    return TableState(
        relation=each.relation,
        live=each.live,
        dead=each.dead,
        size_bytes=each.size_bytes,
        dead_bytes=each.dead_bytes,
        growth=_rounded(each.growth),
        xid_age=each.xid_age,
        mxid_age=each.mxid_age,
        toast_xid_age=each.toast_xid_age,
        toast_mxid_age=each.toast_mxid_age,
        vacuums=each.vacuums,
        autovacuums=each.autovacuums,
    )


def _vacuum(each: Course) -> TableVacuum:
    return TableVacuum(
        relation=each.relation,
        automatic=each.automatic,
        to_prevent_wraparound=each.to_prevent_wraparound,
        failsafe=each.failsafe,
        count=each.count,
        phases=tuple(VacuumPhase(phase=name, seconds=seen) for name, seen in each.phases),
        scanned_share=_rounded(each.scanned_share),
        index_passes=each.index_passes,
        memory_share=_rounded(each.memory_share),
        asleep_share=_rounded(each.asleep_share),
        pages_per_s=_rounded(each.pages_per_s),
        left_s=_rounded(each.left_s),
        effect=_effect(each.effect),
    )


def _effect(effect: Effect) -> VacuumEffect:
    tps, tps_ci95 = _ratio(effect.throughput)
    p99, p99_ci95 = _ratio(effect.p99)
    return VacuumEffect(
        seconds_during=effect.seconds_during,
        seconds_without=effect.seconds_without,
        throughput_ratio=tps,
        throughput_ci95=tps_ci95,
        latency_p99_ratio=p99,
        latency_p99_ci95=p99_ci95,
    )


def _ratio(
    found: tuple[float, float, float] | None,
) -> tuple[float | None, tuple[float, float] | None]:
    if found is None:
        return None, None
    ratio, lo, hi = map(rounded, found)
    return ratio, (lo, hi)


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)
