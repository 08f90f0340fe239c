"""Contents of the HTML page of a drill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno import numbers
from pgdyno.drill.model import DrillResult
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import RunFile, RunInfo
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import cut_charts
from pgdyno.report.page import _sections
from pgdyno.report.page._parts import Banner, Entry, Frame, Headline, entries_of
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import accounts, headlines, repeat, sentences
from pgdyno.report.words.drills import (
    CUT_HEAD,
    check_rows,
    cut_cells,
    differences_of,
    drill_description,
    minimised_sentences,
    outage_sentence,
    outcome_counts,
    result_of,
    settings_words,
)
from pgdyno.report.words.tables import Table
from pgdyno.results import drill as results

COMPARED = {
    "lost": "lost commits",
    "lost_ms": "age of the oldest lost commit, ms",
    "recovery_s": "recovery, s",
    "damaged": "share of damaged cuts",
}
TEMPLATE = "drill.html.j2"


@dataclass(frozen=True)
class DrillPage(Frame):
    """Contents of the page; empty parts have no section."""

    fault: Sequence[tuple[str, str]]
    cut_charts: Sequence[Chart]
    cuts: Table
    proofs: Table
    checks: Table | None
    differences: Table | None
    against_text: str

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return list(self.cut_charts)

    @property
    def contents(self) -> list[Entry]:
        """The sections of the page."""
        entries = (
            (True, "fault", "The fault and its outcome"),
            (self.cut_charts, "cuts", "Cut by cut"),
            (self.checks, "checks", "Checks of the database"),
            (self.differences, "against", "Comparison with another server"),
            (True, "facts", "The run"),
            (True, "repeat", "Repeat it"),
        )
        return entries_of(entries)


def make_page(run: RunFile) -> DrillPage:
    """Return the contents of the page of a drill."""
    info, drills = run.run, stored_drills(run)
    if not drills:
        raise UsageError(
            f"{run.path} ended before the drill began: {info.status_detail or info.status}",
            code="drill-empty",
        )
    drill = drills[0]
    checks, result = check_rows(drill), result_of(run)
    other = result.against.server_version if result and result.against else ""
    verdict, lead = headlines.headline_of(drill.summary().sentence)
    return DrillPage(
        name=info.name,
        pgdyno_version=info.pgdyno_version,
        run_file=run.path.name,
        subtitle=[*sentences.setting_of_run(info), sentences.started_at(info)],
        title=headlines.title_of(info.name, verdict),
        verdict=verdict,
        lead=lead,
        headline=_headline(drill, info),
        banners=[*_trust(drill), *_sections.circumstances(RunSummary(run))],
        fault=_fault_terms(drill),
        cut_charts=cut_charts(drill),
        cuts=Table(
            "All cuts", CUT_HEAD, [cut_cells(cut) for cut in drill.cuts],
            right=frozenset(range(1, 10)) - {2},
        ),
        proofs=Table(
            "Proof of each fault",
            ["Cut", "seed", "proof"],
            [[str(cut.number), str(cut.seed), cut.proof.sentence] for cut in drill.cuts],
            right=frozenset({1}),
        ),
        checks=Table(
            "Checks of all cuts", ["Check", "passed", "failed", "not made", "details"],
            checks, right=frozenset({1, 2, 3}),
        ) if checks else None,
        differences=_differences(result),
        against_text=f"The same drill, with the same seeds, on PostgreSQL {other}."
        if differences_of(result) else "",
        facts=accounts.fact_tables(run),
        repeat_text=repeat.save_spec_text(info),
        spec_lines=accounts.spec_lines(info.spec),
        spec_command=[repeat.spec_command(run)],
        repeat_lines=repeat.repeat_lines(run),
    )  # fmt: skip


def _headline(drill: DrillResult, info: RunInfo) -> list[Headline]:
    summary = drill.summary()
    lost_ms = summary.lost_ms_max
    back, _, unit = numbers.ms(lost_ms).partition(" ")
    figures = [
        Headline("Cuts", numbers.count(summary.cuts), note=outcome_counts(drill)),
        Headline(
            "Lost commits, worst cut",
            numbers.count(summary.lost_max) if summary.lost_max is not None else "—",
            note=f"of {numbers.count(summary.acked)} acknowledged in all cuts"
            if summary.lost_max is not None
            else "the ledger could not be compared",
        ),
    ]
    if lost_ms is not None:
        bound = "no documented bound" if drill.bound_ms is None else (
            f"documented bound {numbers.ms(drill.bound_ms)}" if drill.bound_ms
            else "documented: no loss"
        )  # fmt: skip
        figures.append(Headline("Oldest lost commit", back, unit, note=bound))
    if summary.recovery_s_median is not None:
        median, _, unit = numbers.duration(summary.recovery_s_median).partition(" ")
        worst = numbers.duration(summary.recovery_s_max)
        figures.append(Headline("Recovery, median", median, unit, note=f"{worst} at most"))
    if summary.no_commit_ms_median is not None:
        median, _, unit = numbers.duration(summary.no_commit_ms_median / 1000).partition(" ")
        worst = numbers.duration((summary.no_commit_ms_max or 0.0) / 1000)
        figures.append(Headline("No commit for, median", median, unit, note=f"{worst} at most"))
    if taken := sentences.time_taken(info):
        figures.append(Headline("Duration", taken, note=sentences.started_at(info)))
    return figures


def _trust(drill: DrillResult) -> list[Banner]:
    if not drill.fault_missing or not drill.cuts:
        return []
    missing = sum(cut.outcome == "no-fault" for cut in drill.cuts)
    text = f"In {missing} of {len(drill.cuts)} cuts, which are not counted."
    return [Banner("The fault did not happen.", text, bad=True)]


def _fault_terms(drill: DrillResult) -> list[tuple[str, str]]:
    summary = drill.summary()
    bound = summary.upper_bound
    terms = [
        ("Fault", drill_description(drill)),
        ("Documented", drill.bound),
        ("Settings", settings_words(drill)),
        ("Outcome", summary.sentence),
        *((f"Proof of cut {cut.number}", cut.proof.sentence) for cut in drill.cuts[:1]),
    ]
    one = len(drill.cuts_by_variant()) == 1
    if one and bound is not None and summary.clean < summary.happened and bound < 1:
        terms.append(
            (
                "Upper bound",
                f"at most {numbers.percent(bound)} of such crashes do harm, with 95 % confidence",
            )
        )
    if sentence := outage_sentence(drill):
        terms.append(("Outage", sentence))
    terms += [("Minimised", sentence) for sentence in minimised_sentences(drill)]
    return terms


def _differences(result: results.DrillResult | None) -> Table | None:
    found = differences_of(result)
    if not found:
        return None
    rows = [
        [
            COMPARED.get(each.what, each.what),
            numbers.significant(each.here),
            numbers.significant(each.there),
            numbers.significant(each.p, 2),
            "different" if each.differs else "no difference",
        ]
        for each in found
    ]
    head = ["Figure", "this server", "other server", "p", "verdict"]
    return Table("Medians per cut, and the share of damaged cuts", head, rows, frozenset({1, 2, 3}))
