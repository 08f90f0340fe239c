"""The HTML page of a drill, as parts that its template sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.drill.model import DrillResult
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import RunFile, RunInfo
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import cut_charts
from pgdyno.report.page import _sections
from pgdyno.report.page._parts import Banner, Entry, Frame, Headline
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import accounts, headlines, numbers, repeat, sentences
from pgdyno.report.words.drills import (
    CUT_HEAD,
    check_rows,
    cut_cells,
    differing,
    minimised,
    outcome_counts,
    result_of,
    settings_words,
    what_was_done,
)
from pgdyno.report.words.tables import Table
from pgdyno.results import drill as results

COMPARED = {
    "lost": "lost commits",
    "lost_ms": "reaching back, ms",
    "recovery_s": "recovery, s",
    "damaged": "share of damaged cuts",
}
TEMPLATE = "drill.html.j2"


@dataclass(frozen=True)
class DrillPage(Frame):
    """Everything that the template sets. What is empty leaves its section out."""

    broken: Sequence[tuple[str, str]]
    cut_charts: Sequence[Chart]
    cuts: Table
    proofs: Table
    checks: Table | None
    differences: Table | None
    against_says: str

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return list(self.cut_charts)

    @property
    def contents(self) -> list[Entry]:
        """The sections that the page has."""
        entries = (
            (True, "broken", "What was broken"),
            (self.cut_charts, "cuts", "Cut by cut"),
            (self.checks, "checks", "What was looked at"),
            (self.differences, "against", "Against another server"),
            (True, "facts", "The run"),
            (True, "repeat", "Repeat it"),
        )
        return [Entry(anchor, title) for there, anchor, title in entries if there]


def make_page(run: RunFile) -> DrillPage:
    """Everything that the page of a drill says."""
    info, drills = run.run, stored_drills(run)
    if not drills:
        raise UsageError(
            f"{run.path} ended before the drill began: {info.status_detail or info.status}",
            code="drill-empty",
        )
    drill = drills[0]
    checks, result = check_rows(drill), result_of(run)
    other = result.against.server_version if result and result.against else ""
    verdict, lead = headlines.cut(drill.summary().sentence)
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
        broken=_broken(drill),
        cut_charts=cut_charts(drill),
        cuts=Table(
            "All cuts", CUT_HEAD, [cut_cells(cut) for cut in drill.cuts],
            right=frozenset(range(1, 9)) - {2},
        ),
        proofs=Table(
            "What proves that each fault happened",
            ["Cut", "seed", "proof"],
            [[str(cut.number), str(cut.seed), cut.proof.sentence] for cut in drill.cuts],
            right=frozenset({1}),
        ),
        checks=Table(
            "Checks of all cuts", ["Check", "passed", "failed", "not made", "what it says"],
            checks, right=frozenset({1, 2, 3}),
        ) if checks else None,
        differences=_differences(result),
        against_says=f"The same drill, with the same seeds, on PostgreSQL {other}."
        if differing(result) else "",
        facts=accounts.fact_tables(run),
        repeat_says=repeat.repeat_says(info),
        spec_lines=accounts.spec_lines(info.spec),
        spec_command=[repeat.spec_command(info)],
        repeat_lines=repeat.repeat_lines(info, run.path),
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
            else "no ledger could be compared",
        ),
    ]
    if lost_ms is not None:
        allowed = "no documented bound" if drill.bound_ms is None else (
            f"documented {numbers.ms(drill.bound_ms)}" if drill.bound_ms else "documented: none"
        )  # fmt: skip
        figures.append(Headline("Reaching back", back, unit, note=allowed))
    if summary.recovery_s_median is not None:
        worst = numbers.significant(summary.recovery_s_max, 2)
        median = numbers.significant(summary.recovery_s_median, 2)
        figures.append(Headline("Recovery, median", median, "s", note=f"{worst} s at most"))
    if taken := sentences.time_taken(info):
        figures.append(Headline("Time taken", taken, note=sentences.started_at(info)))
    return figures


def _trust(drill: DrillResult) -> list[Banner]:
    if not drill.fault_missing or not drill.cuts:
        return []
    missing = sum(cut.outcome == "no-fault" for cut in drill.cuts)
    said = f"In {missing} of {len(drill.cuts)} cuts; nothing is known of them."
    return [Banner("The fault did not happen.", said, bad=True)]


def _broken(drill: DrillResult) -> list[tuple[str, str]]:
    summary = drill.summary()
    bound = summary.upper_bound
    terms = [
        ("fault", what_was_done(drill)),
        ("documented", drill.bound),
        ("settings", settings_words(drill)),
        ("seen", summary.sentence),
        *((f"proof of cut {cut.number}", cut.proof.sentence) for cut in drill.cuts[:1]),
    ]
    one = len(drill.cuts_by_variant()) == 1
    if one and bound is not None and summary.clean < summary.happened and bound < 1:
        terms.append(
            (
                "so at most",
                f"{numbers.percent(bound)} of such crashes would do harm, with 95 % confidence",
            )
        )
    terms += [("comes down to", said) for said in minimised(drill)]
    return terms


def _differences(result: results.DrillResult | None) -> Table | None:
    found = differing(result)
    if not found:
        return None
    rows = [
        [
            COMPARED.get(each.what, each.what),
            numbers.significant(each.here),
            numbers.significant(each.there),
            numbers.significant(each.p, 2),
            "differs" if each.differs else "no difference seen",
        ]
        for each in found
    ]
    head = ["What", "this server", "the other", "p", "verdict"]
    return Table("Medians per cut, and the share of damaged cuts", head, rows, frozenset({1, 2, 3}))
