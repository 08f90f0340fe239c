"""Branches in words: figures, effects, events, and the state that they began with."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import Answer, OnPage, Part, Section, Terms, View
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.branch import BranchEvent, BranchFigures, BranchMatch, BranchResult

HEAD = ("branch", "tps before", "tps", "p99 ms", "against before", "against the first", "p99")
STARTS_HEAD = (
    "branch",
    "round",
    "rows",
    "pages (SHA-256)",
    "restored s",
    "ready s",
    "tps",
    "p99 ms",
)
_DIGEST_LENGTH = 16


def rows(result: BranchResult) -> list[list[str]]:
    """Return a row for each branch."""
    return [
        [
            each.name,
            numbers.tps(each.throughput_tps_before),
            numbers.tps(each.throughput_tps),
            numbers.ms_figure(each.latency_ms_p99),
            *_effects(each),
        ]
        for each in result.branches
    ]


def _effects(each: BranchFigures) -> tuple[str, str, str]:
    own, effect, latency = each.own_effect, each.effect, each.latency_p99
    return (
        numbers.effect(own.throughput_ratio, *own.ci95) if own else "",
        numbers.effect(effect.throughput_ratio, *effect.ci95) if effect else "",
        numbers.effect(latency.ratio, *latency.ci95) if latency else "",
    )


def sentences(result: BranchResult) -> dict[str, str]:
    """Return label and sentence of what is said of the branches; empty ones are left out."""
    said = {each.name: _branch(each) for each in result.branches}
    said["state"] = _state(result)
    said["start"] = _starts(result)
    return {label: text for label, text in said.items() if text}


def _branch(each: BranchFigures) -> str:
    parts = [
        each.title,
        _match(each.match),
        *(_event(event) for event in each.events),
        each.remark,
    ]
    return "; ".join(part.rstrip(".") for part in parts if part)


def _match(match: BranchMatch | None) -> str:
    if match is None:
        return ""
    return (
        f"{match.clients} of {match.of_clients} clients come nearest to the"
        f" {numbers.tps(match.throughput_tps)} tps of {match.branch} from its first event on"
    )


def _event(event: BranchEvent) -> str:
    head = f"{event.action} at {event.at_s:g} s"
    if event.ended is None:
        return head
    if event.seconds is None:
        return f"{head}, which never ended within the measurement"
    ended = numbers.counted(event.ended, "measurement", "measurements")
    return f"{head}, which took {event.seconds:.2g} s (ended in {ended})"


def _state(result: BranchResult) -> str:
    state = result.state
    how = "cloned, blocks shared" if state.method == "clone" else "copied, no blocks shared"
    load = f", after {state.before_s:g} s under load" if state.before_s else ""
    return (
        f"{numbers.size(state.bytes)} on {state.file_system}{load}: {sum(state.rows.values()):,}"
        f" rows in {len(state.rows)} {'table' if len(state.rows) == 1 else 'tables'},"
        f" {state.files} files with SHA-256 {state.pages_sha256[:_DIGEST_LENGTH]}…; {how}"
    )


def _starts(result: BranchResult) -> str:
    starts = [start for each in result.branches for start in each.starts]
    same = (
        "with the rows and pages of the saved state"
        if result.same_state
        else "NOT all with the rows and pages of the saved state"
    )
    restored, ready = (
        median(getattr(start, name) for start in starts)
        for name in ("restore_seconds", "ready_seconds")
    )
    return (
        f"{len(starts)} measurements, {same}; restored in {restored:.2g} s and ready after"
        f" {ready:.2g} s (medians)"
    )


def tables(result: BranchResult) -> list[Table]:
    """Return the tables of the page: the branches, and each measurement of them."""
    starts = [
        [
            each.name,
            str(start.round),
            f"{sum(start.rows.values()):,}",
            f"{start.pages_sha256[:_DIGEST_LENGTH]}…",
            f"{start.restore_seconds:.3f}",
            f"{start.ready_seconds:.3f}",
            numbers.tps(start.throughput_tps),
            numbers.ms_figure(start.latency_ms_p99),
        ]
        for each in result.branches
        for start in each.starts
    ]
    return [
        figures_table("Branches", HEAD, rows(result)),
        figures_table("Measurements, each from the saved state", STARTS_HEAD, starts),
    ]


def _sections(summary: RunSummary) -> list[Section]:
    result: BranchResult | None = summary.result_of("branch")
    if result is None:
        return []
    branches_table, starts_table = tables(result)
    said = sentences(result)
    terms = Terms(said, label_width=max(map(len, said)) + 2, are_names=True)
    parts: list[Part] = [branches_table, Answer(result.sentence), OnPage(starts_table), terms]
    return [Section("branches", "Branches", parts)]


def _csv(result: BranchResult) -> Iterator[Row]:
    """Yield one row per measurement of a branch."""
    for each in result.branches:
        for start in each.starts:
            row = start.model_dump(exclude={"rows"})
            yield {"branch": each.name, "rows": sum(start.rows.values()), **row}


VIEW = View("branch", _sections, verdict=attrgetter("sentence"), has_several_loads=True, rows=_csv)
