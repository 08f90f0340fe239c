"""Soaks in words: how long, what interrupted them, what changed, and whether they are valid."""

from __future__ import annotations

import shlex
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import InTerminal, OnPage, Section, Term, Terms, View
from pgdyno.report.views.run import interval_rows, records
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.soak import SoakResult, ValidityCheck

HEAD = ("check", "", "")
SHOWN_MAX = 6


def sentences(result: SoakResult) -> dict[str, str]:
    """Return label and sentence of what is said of a soak; empty ones are left out."""
    said = {
        "soak": _length(result),
        "gaps": _listed([f"{_at(each.at_s)} for {_long(each.lasted_s)}" for each in result.gaps]),
        "void": _void(result),
        "named": _listed([f"{_at(each.at_s)} {each.sentence}" for each in result.changes_named]),
        "data": _data(result),
    }
    return {label: text for label, text in said.items() if text}


def checks(result: SoakResult) -> list[tuple[str, str, str]]:
    """Return name, outcome and sentence of each check of validity."""
    return [(each.name, _outcome(each), each.sentence) for each in result.validity]


def tables(result: SoakResult) -> list[Table]:
    """Return the checks of validity as a table of the page."""
    return [figures_table("Validity", HEAD, [list(row) for row in checks(result)])]


def _length(result: SoakResult) -> str:
    ended = "" if result.ended == "planned" else ", ended to keep a disk from filling"
    return f"{_long(result.measured_s)} of {_long(result.planned_s)} under load{ended}"


def _data(result: SoakResult) -> str:
    if result.data_kept is None:
        return ""
    removal = f"rm -r {shlex.quote(result.data_kept)}"
    return f"kept in {result.data_kept}, to go on with a longer -T; to remove them: {removal}"


def _void(result: SoakResult) -> str:
    slices = [
        f"{_at(each.at_s)} for {_long(each.lasted_s)}: {each.reason}" for each in result.void_slices
    ]
    if not slices:
        return ""
    shares = f"{numbers.percent(result.void_share)} of the time, trusted up to"
    return f"{shares} {numbers.percent(result.void_share_max)}, in no figure: {_listed(slices)}"


def _outcome(check: ValidityCheck) -> str:
    return {True: "as intended", False: "not as intended", None: "not measured"}[check.passed]


def _listed(texts: list[str]) -> str:
    more = len(texts) - SHOWN_MAX
    return "; ".join([*texts[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])])


def _at(seconds: float) -> str:
    return f"at {numbers.clock(seconds)}"


def _long(seconds: float) -> str:
    return numbers.duration(seconds)


def _sections(summary: RunSummary) -> list[Section]:
    result: SoakResult | None = summary.result_of("soak")
    if result is None:
        return []
    valid = InTerminal(Terms([_valid(check) for check in result.validity]))
    parts = [Terms(sentences(result)), valid, *map(OnPage, tables(result))]
    return [Section("soak", "Soak", parts), *records(summary)]


def _valid(check: ValidityCheck) -> Term:
    label, style = ("valid", "") if check.passed else ("not valid", "bold red")
    label = "unknown" if check.passed is None else label
    return Term(label, f"{check.name}: {check.sentence}", style)


VIEW = View(
    "soak",
    _sections,
    verdict=attrgetter("verdict.sentence"),
    measured_rows=interval_rows,
    is_run=True,
)
