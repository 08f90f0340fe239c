"""The view of a drill: the fault and its outcome, each cut, the checks, and another server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.errors import UsageError
from pgdyno.report.view import (
    Banner,
    BlankLine,
    Charts,
    Headline,
    InTerminal,
    OnPage,
    Opening,
    Part,
    Section,
    Term,
    Terms,
    Text,
    View,
)
from pgdyno.report.words import drills, sentences
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.record.cut import Cut
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.drill import Difference, Drill, DrillResult

COMPARED = {
    "lost": "lost commits",
    "lost_ms": "age of the oldest lost commit, ms",
    "recovery_s": "recovery, s",
    "damaged": "share of damaged cuts",
}
LEDGER = "ledger"
"""The check that counts lost commits."""
STYLES = {"clean": "green", "lost": "yellow", "refused": "red", "corrupt": "red"}
_COMMAND = "drill"
_CUT_WORDS = (
    "Acked: commits acknowledged before the fault. Lost: acknowledged commits that are absent from"
    " the database. Oldest lost: time from the oldest lost acknowledgement to the fault, or to the"
    " end of the old primary. Unknown: commits in progress when the connection ended, whose outcome"
    " no client knows. Ghosts: unknown commits that are in the database."
)


def _stored(run: RunFile) -> Sequence[Drill]:
    from pgdyno.drill.storage import stored_drills

    return stored_drills(run)


def _sections(summary: RunSummary) -> list[Section]:
    recorded = summary.result_of(_COMMAND)
    return [section for drill in _stored(summary.run) for section in _of_drill(drill, recorded)]


def _of_drill(drill: Drill, recorded: DrillResult | None) -> Iterator[Section]:
    differences = (recorded.differences or ()) if recorded else ()
    fault: list[Part] = [
        InTerminal(Terms([*_terms(drill), *_compared(differences)])),
        OnPage(Terms(_page_terms(drill), as_written=True)),
        BlankLine(),
    ]
    yield Section("fault", "The fault and its outcome", fault)
    if drill.cuts:
        yield Section("cuts", "Cut by cut", _cut_parts(drill))
    if checked := drills.check_rows(drill):
        yield Section("checks", "Checks of the database", _check_parts(drill, checked))
    if recorded and recorded.against and differences:
        other = recorded.against.server_version
        text = f"The same drill, with the same seeds, on PostgreSQL {other}."
        table = _differences_table(differences)
        yield Section("against", "Comparison with another server", [OnPage(Text(text)), table])


def _terms(drill: Drill) -> Iterator[Term]:
    summary = drill.summary
    outcomes = ("corrupt", "refused", "lost")
    worst = next((outcome for outcome in outcomes if getattr(summary, outcome)), "clean")
    yield Term("drill", drills.drill_description(drill))
    yield Term("verdict", summary.sentence, "bold red" if drill.fault_missing else STYLES[worst])
    yield Term("documented", drill.bound)
    yield Term("settings", drills.settings_words(drill), spare=True)
    yield Term("outcomes", drills.outcome_counts(drill))
    if summary.recovery_s_median is not None and summary.recovery_s_max is not None:
        median, most = map(numbers.duration, (summary.recovery_s_median, summary.recovery_s_max))
        yield Term("recovery", f"median {median}, at most {most}")
    yield Term("outage", drills.outage_sentence(drill))
    yield from (Term("minimised", sentence) for sentence in drills.minimised_sentences(drill))
    yield from (
        Term("proof", f"of cut {cut.number}: {cut.proof.sentence}") for cut in drill.cuts[:1]
    )


def _compared(differences: Sequence[Difference]) -> Iterator[Term]:
    """Yield the comparisons with the same drill on another server, the differences first."""
    for each in sorted(differences, key=lambda each: not each.differs):
        yield Term("compared", each.sentence, "yellow" if each.differs else "")


def _page_terms(drill: Drill) -> list[Term]:
    from pgdyno.drill.fault import find_fault

    summary = drill.summary
    bound = summary.upper_bound
    one = find_fault(drill.fault).pooled or len({cut.variant for cut in drill.cuts}) == 1
    harmed = ""
    if one and bound is not None and summary.clean < summary.happened and bound < 1:
        share = numbers.percent(bound)
        harmed = f"at most {share} of such crashes do harm, with 95 % confidence"
    return [
        Term("Fault", drills.drill_description(drill)),
        Term("Documented", drill.bound),
        Term("Settings", drills.settings_words(drill)),
        Term("Outcome", summary.sentence),
        *(Term(f"Proof of cut {cut.number}", cut.proof.sentence) for cut in drill.cuts[:1]),
        Term("Upper bound", harmed),
        Term("Outage", drills.outage_sentence(drill)),
        *(Term("Minimised", sentence) for sentence in drills.minimised_sentences(drill)),
    ]


def _cut_parts(drill: Drill) -> list[Part]:
    def charts() -> list[Chart]:
        from pgdyno.report.charts.drills import cut_charts

        return cut_charts(drill)

    table = drills.cuts_table(drill)
    in_terminal = replace(table, head=[table.head[0].lower(), *table.head[1:]], spare=True)
    proofs = Table(
        "Proof of each fault",
        ["Cut", "seed", "proof"],
        [[str(cut.number), str(cut.seed), cut.proof.sentence] for cut in drill.cuts],
        right=frozenset({1}),
        wide=True,
        folded="Seeds and proofs",
    )
    return [
        Charts(charts, side_by_side=False),
        OnPage(table),
        InTerminal(in_terminal),
        OnPage(Text(_CUT_WORDS, small=True)),
        OnPage(proofs),
    ]


def _check_parts(drill: Drill, checked: Sequence[Sequence[str]]) -> list[Part]:
    table = Table(
        "Checks of all cuts",
        ["Check", "passed", "failed", "not made", "details"],
        checked,
        right=frozenset({1, 2, 3}),
        wide=True,
    )
    terms, passed = [], []
    for name, good, bad, not_made, detail in checked:
        if bad != "0" and not (name == LEDGER and _only_lost(drill)):
            text = f"{name} failed in {bad} of {len(drill.cuts)} cuts: {detail}"
            terms.append(Term("failed", text, "red"))
        elif good == "0" and not_made != "0":
            terms.append(Term("not made", f"{name}: {detail}", spare=True))
        elif bad == "0":
            passed.append(name)
    return [OnPage(table), InTerminal(Terms([Term("passed", ", ".join(passed)), *terms]))]


def _only_lost(drill: Drill) -> bool:
    """True if all failures of the ledger check are lost commits, which the verdict reports."""
    return all(cut.outcome == "lost" for cut in drill.cuts if cut.seen_by == LEDGER)


def _differences_table(differences: Sequence[Difference]) -> OnPage:
    rows = [
        [
            COMPARED.get(each.what, each.what),
            numbers.significant(each.here),
            numbers.significant(each.there),
            numbers.significant(each.p, 2),
            "different" if each.differs else "no difference",
        ]
        for each in differences
    ]
    head = ["Figure", "this server", "other server", "p", "verdict"]
    caption = "Medians per cut, and the share of damaged cuts"
    return OnPage(Table(caption, head, rows, right=frozenset({1, 2, 3}), wide=True))


def _opening(summary: RunSummary) -> Opening:
    info, run = summary.info, summary.run
    stored = _stored(run)
    if not stored:
        raise UsageError(
            f"{run.path} ended before the drill began: {info.status_detail or info.status}",
            code="drill-empty",
        )
    taken = sentences.time_taken(info)
    duration = [Headline("Duration", taken, note=sentences.started_at(info))] if taken else []
    figures = [*_figures(stored[0]), *duration]
    return Opening(stored[0].summary.sentence, figures, _banners(stored[0]))


def _figures(drill: Drill) -> Iterator[Headline]:
    summary = drill.summary
    yield Headline("Cuts", numbers.count(summary.cuts), note=drills.outcome_counts(drill))
    known = summary.lost_max is not None
    yield Headline(
        "Lost commits, worst cut",
        numbers.count(summary.lost_max) if summary.lost_max is not None else "—",
        note=f"of {numbers.count(summary.acked)} acknowledged in all cuts"
        if known
        else "the ledger could not be compared",
    )
    if summary.lost_ms_max is not None:
        bound = "no documented bound" if drill.summary.bound_ms is None else (
            f"documented bound {numbers.ms(drill.summary.bound_ms)}" if drill.summary.bound_ms
            else "documented: no loss"
        )  # fmt: skip
        yield _measured("Oldest lost commit", numbers.ms(summary.lost_ms_max), bound)
    if summary.recovery_s_median is not None:
        median, worst = map(numbers.duration, (summary.recovery_s_median, summary.recovery_s_max))
        yield _measured("Recovery, median", median, f"{worst} at most")
    if summary.no_commit_ms_median is not None:
        median = numbers.duration(summary.no_commit_ms_median / 1000)
        worst = numbers.duration((summary.no_commit_ms_max or 0.0) / 1000)
        yield _measured("No commit for, median", median, f"{worst} at most")


def _measured(label: str, text: str, note: str) -> Headline:
    """Return a figure whose unit stands behind it."""
    value, _, unit = text.partition(" ")
    return Headline(label, value, unit, note=note)


def _banners(drill: Drill) -> list[Banner]:
    if not drill.fault_missing or not drill.cuts:
        return []
    missing = sum(cut.outcome == "no-fault" for cut in drill.cuts)
    text = f"In {missing} of {len(drill.cuts)} cuts, which are not counted."
    return [Banner("The fault did not happen.", text, bad=True)]


def _csv(run: RunFile) -> Iterator[Row]:
    """Yield one row per cut."""
    return (_cut_row(drill.fault, cut) for drill in _stored(run) for cut in drill.cuts)


def _cut_row(fault: str, cut: Cut) -> Row:
    from pgdyno.record.cut import LedgerCount

    ledger = dict.fromkeys(LedgerCount.model_fields) | dict(cut.ledger or {})
    return {
        "fault": fault,
        **{name: getattr(cut, name) for name in ("number", "variant", "seed", "at_ms")},
        **ledger,
        **{n: getattr(cut, n) for n in ("recovery_s", "outcome", "seen_by", "server_said")},
        "no_commit_ms": cut.outage and cut.outage.no_commit_ms,
        "proof": cut.proof.sentence,
    }


VIEW = View(
    _COMMAND, _sections, measured_rows=_csv, opening=_opening, lines_max=54, makes_incidents=True
)
