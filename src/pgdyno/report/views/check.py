"""The view of a check: what will fail, what limits, what it costs, what was not seen."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.errors import UsageError
from pgdyno.escaping import shell_line
from pgdyno.report.view import (
    BlankLine,
    Card,
    Cards,
    Charts,
    Headline,
    InTerminal,
    OnPage,
    Opening,
    Part,
    Section,
    Tag,
    Term,
    Terms,
    Text,
    View,
)
from pgdyno.report.words import prose
from pgdyno.report.words.findings import evidence_table, finding_name
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record.finding import Finding, ProvingCommand
    from pgdyno.record.write_probe import WriteProbe
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.check import BusyStatement, CheckResult, NotChecked, ObservedLoad

EVIDENCE_MAX = 4
PROOFS_MAX = 2
STATEMENTS_MAX = 5
WAITS_MAX = 6
NAMES_MAX = 3
LABEL = 11
STYLES = {"will fail": "bold red", "limit": "yellow", "costs": "", "minor": "dim"}
TONES = {"will fail": "bad", "limit": "warn", "costs": "plain", "minor": "plain"}
_COMMAND = "check"
_PROVE_WORDS = (
    "SCRIPT.sql stands for statements of the application. Prove a change on a copy of the server:"
    " pgdyno compare puts it under load."
)
_COMMIT_WORDS = (
    "The write probe committed rows of its own, one after the other. Network is the plain round"
    " trip, server the rest of an insert that does not wait for the flush of the WAL, flush that"
    " wait; standby is what standbys add."
)
_LOAD_WORDS = (
    "The load of others, as the server counted and showed it. Sessions are averages over the"
    " window; the time of a commit counts for the statement that it belongs to."
)


def _sections(summary: RunSummary) -> list[Section]:
    result: CheckResult | None = summary.result_of(_COMMAND)
    if result is None:
        return []

    def charts() -> list[Chart]:
        from pgdyno.report.charts.over_time import time_charts
        from pgdyno.report.charts.time_axis import time_axis

        return time_charts(time_axis(summary.run))

    cards = Cards([_card(each) for each in result.findings])
    prove = [OnPage(Text(_PROVE_WORDS, small=True))] if result.findings else []
    return [
        Section("summary", "Summary", _in_terminal(result)),
        Section("findings", "Findings", [cards, *prove]),
        Section("commits", "Commits", [*map(OnPage, _commits(result.write_probe))]),
        Section("load", "The load", [*map(OnPage, _load(result.load))]),
        Section("time", "Over time", [Charts(charts, side_by_side=False)]),
        Section("unseen", "Not checked", [*map(OnPage, _not_checked(result))]),
        Section("cleared", "Checked and cleared", [*map(OnPage, _cleared(result))]),
    ]


def _in_terminal(result: CheckResult) -> list[Part]:
    """Return the lines of the terminal, which has another order than the page."""
    ended = f"checked in {result.seconds:.1f} s, {manner_words(result)}"
    terms = [
        *(term for finding in result.findings for term in _finding_terms(finding)),
        *_cleared_terms(result),
        *_not_checked_terms(result),
        Term("run file", result.run_file or ""),
    ]
    return [
        InTerminal(Terms([*_load_terms(result.load)], LABEL)),
        InTerminal(Terms({"commits": commit_words(result.write_probe)}, LABEL)),
        BlankLine(),
        InTerminal(Text(result.verdict, "bold")),
        BlankLine(),
        InTerminal(Terms(terms, LABEL)),
        InTerminal(Text(ended, "dim")),
    ]


def _load_terms(load: ObservedLoad) -> Iterator[Term]:
    yield Term("load", load_words(load))
    waits = (f"{numbers.significant(w.sessions, 2)} {w.event}" for w in load.waits[:WAITS_MAX])
    yield Term("sessions", ", ".join(waits))
    for number, each in enumerate(load.statements[:STATEMENTS_MAX]):
        yield Term("" if number else "statements", statement_words(each), spare=number > 2)
    yield Term("costliest", load.costliest.sentence)


def load_words(load: ObservedLoad) -> str:
    """Return throughput, sessions and cores in a few words."""
    cores = "" if load.cores is None else f", {numbers.counted(load.cores, 'core', 'cores')}"
    rate = (
        "" if load.transactions_s is None else f"{numbers.significant(load.transactions_s)} tps, "
    )
    work = "hidden" if load.at_work is None else numbers.significant(load.at_work)
    return f"{rate}{work} sessions at work of {load.sessions:,} connected{cores}"


def statement_words(each: BusyStatement) -> str:
    """Return the costs of a statement, and its beginning."""
    parts = []
    if each.sessions is not None:
        parts.append(f"{numbers.significant(each.sessions, 2)} sessions")
    if each.calls_s is not None and each.mean_ms is not None:
        parts.append(
            f"{numbers.significant(each.calls_s, 2)}/s of {numbers.significant(each.mean_ms, 2)} ms"
        )
    return f"{', '.join(parts)}: {' '.join(each.statement.split())[:90]}"


def commit_words(probe: WriteProbe | None) -> str:
    """Return how long a commit of the write probe takes, and its parts; '' without one."""
    if probe is None:
        return ""
    times = ", ".join(
        f"{name} {numbers.significant(ms)}"
        for name, ms in (("p50", probe.p50_ms), ("p99", probe.p99_ms), ("max", probe.max_ms))
    )
    parts = ", ".join(f"{numbers.significant(each.mean_ms, 2)} {each.part}" for each in probe.parts)
    mean, trip = numbers.significant(probe.mean_ms), numbers.significant(probe.round_trip_p50_ms)
    return (
        f"{probe.commits:,} inserts of one client, each with its commit: {mean} ms on average"
        f" ({parts}), {times} ms; select 1: p50 {trip} ms"
    )


def manner_words(result: CheckResult) -> str:
    """Return the actions of the check on the server."""
    if result.write_probe is None:
        return "read-only and without a load"
    return "without a load but that of the write probe, into a table of its own"


def gain_words(proof: ProvingCommand) -> str:
    """Return the predicted gain of a change."""
    if proof.guards:
        return "prevents a fault"
    ratio = proof.predicted_ratio
    return "gain unknown" if ratio is None else f"predicted {numbers.predicted(ratio)}"


def _finding_terms(finding: Finding) -> Iterator[Term]:
    of = "" if not finding.share else f", {numbers.percent(finding.share)} of the sessions' time"
    name, severity = finding.id.replace("-", " "), finding.severity or "minor"
    yield Term(severity, f"{name}: {finding.sentence}{of}", STYLES[severity])
    minor = severity == "minor"
    for label, text in _details(finding):
        yield Term("", f"{label}: {text}", spare=minor, indent=2)


def _details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield what stands under a finding: evidence, what else it may be, what to do."""
    evidence = [
        f"{each.name} {numbers.measured(each.value, each.unit)}"
        + (f" ({each.threshold})" if each.threshold else "")
        for each in finding.evidence[:EVIDENCE_MAX]
    ]
    if evidence:
        yield "evidence", "; ".join(evidence)
    if finding.severity != "minor" and finding.false_positives:
        yield "unless", finding.false_positives
    if finding.advice:
        yield "advice", finding.advice
    for command in finding.commands:
        yield "to remedy", command
    for proof in finding.prove[:PROOFS_MAX]:
        gain = gain_words(proof)
        durability = "" if proof.durability_class == "D0" else f", {proof.durability_class}"
        yield f"{proof.title} ({gain}{durability})", proof.command


def _cleared_terms(result: CheckResult) -> Iterator[Term]:
    """Yield one line with as many names as fit."""
    if result.cleared:
        names = ", ".join(each.id for each in result.cleared)
        text = f"{len(result.cleared)} checks: {names}"
        yield Term("cleared", text, "dim", in_one_line=True)


def _not_checked_terms(result: CheckResult) -> Iterator[Term]:
    """Yield a line for each reason, with all that was not checked because of it."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for each in result.not_checked:
        subjects.setdefault((each.why, each.allow), []).append(_subject(each))
    for number, ((why, allow), named) in enumerate(subjects.items()):
        text = "; ".join(filter(None, (f"{', '.join(named)}: {why}", allow)))
        yield Term("" if number else "not checked", text, indent=3)


def _subject(each: NotChecked) -> str:
    """Return the names of checks not made; of many their number, and some."""
    if each.subject != ", ".join(each.checks) or len(each.checks) <= NAMES_MAX:
        return each.subject
    return f"{len(each.checks)} checks ({', '.join(each.checks[:NAMES_MAX])}, …)"


def _card(finding: Finding) -> Card:
    severity = finding.severity or "minor"
    causes = [finding_name(cause) for cause in finding.causes]
    terms = [
        ("Share", "" if not finding.share else f"{numbers.percent(finding.share)} of the time"),
        ("Confidence", numbers.percent(finding.confidence)),
        ("Symptom of", numbers.listed(causes, most=None)),
        ("Wrong if", prose.sentence(finding.false_positives)),
        ("Advice", prose.sentence(finding.advice)),
        *((f"To prove {each.title}", _proof(each)) for each in finding.prove),
    ]
    return Card(
        title=prose.capital(finding_name(finding.id)),
        tags=[Tag(severity, TONES[severity])],
        terms=[(term, text) for term, text in terms if text],
        sentence=prose.sentence(finding.sentence),
        evidence=evidence_table(finding, timed=False),
        lines=finding.commands,
    )


def _proof(proof: ProvingCommand) -> str:
    return f"{proof.command} ({gain_words(proof)}, {proof.durability_class})"


def _cleared(result: CheckResult) -> Iterator[Table]:
    rows = [
        [prose.capital(finding_name(each.id)), prose.sentence(each.sentence)]
        for each in result.cleared
    ]
    if rows:
        yield Table("Checked and cleared", ["Check", "Reason"], rows, wide=True, even=True)


def _not_checked(result: CheckResult) -> Iterator[Table]:
    rows = [
        [each.subject, prose.sentence(each.why), each.allow or numbers.ABSENT]
        for each in result.not_checked
    ]
    if rows:
        head = ["Subject", "reason", "allowed by"]
        caption = "Not checked, and therefore not passed"
        yield Table(caption, head, rows, wide=True, even=True)


def _commits(probe: WriteProbe | None) -> Iterator[Text | Table]:
    if probe is None:
        return
    rows = [
        ["mean", numbers.significant(probe.mean_ms)],
        *([f"of which {each.part}", numbers.significant(each.mean_ms)] for each in probe.parts),
        ["p50", numbers.significant(probe.p50_ms)],
        ["p95", numbers.significant(probe.p95_ms)],
        ["p99", numbers.significant(probe.p99_ms)],
        ["longest", numbers.significant(probe.max_ms)],
        ["select 1, p50", numbers.significant(probe.round_trip_p50_ms)],
    ]
    caption = f"{probe.commits:,} inserts of one client, each with its commit"
    yield Text(_COMMIT_WORDS)
    yield figures_table(caption, ["Time", "ms"], rows)


def _load(load: ObservedLoad) -> Iterator[Text | Table]:
    if not load.waits and not load.statements:
        return
    yield Text(_LOAD_WORDS)
    if load.waits:
        caption = f"Sessions in a transaction by what they wait for, {load.samplings:,} samples"
        waits = [[each.event, numbers.significant(each.sessions)] for each in load.waits]
        yield figures_table(caption, ["Wait event", "sessions"], waits)
    if load.statements:
        yield _statements(load)
    yield Text(f"Costliest statement: {load.costliest.sentence}.")


def _statements(load: ObservedLoad) -> Table:
    rows = [
        [
            each.statement,
            *map(numbers.significant, (each.sessions, each.calls_s, each.mean_ms)),
            *map(numbers.significant, (each.wal_bytes_s, each.blocks_read_s)),
        ]
        for each in load.statements
    ]
    head = ["Statement", "sessions", "calls/s", "mean, ms", "WAL, B/s", "blocks read/s"]
    caption = "Statements in which sessions spend most time"
    return replace(figures_table(caption, head, rows), wide=True)


def _opening(summary: RunSummary) -> Opening:
    info = summary.info
    result: CheckResult | None = summary.result_of(_COMMAND)
    if result is None:
        raise UsageError(
            f"{summary.run.path} ended before the check did: {info.status_detail or info.status}",
            code="check-unfinished",
        )
    uri = str(info.server.get("entrance_uri") or result.server.uri)
    repeat = [shell_line(["pgdyno", _COMMAND, uri])]
    return Opening(result.verdict, _figures(result), repeat=repeat)


def _figures(result: CheckResult) -> list[Headline]:
    load = result.load
    manner = "read-only" if result.write_probe is None else "with the write probe"
    cores = "" if load.cores is None else f"on {load.cores:g} cores"
    severe = sum(each.severity in ("will fail", "limit") for each in result.findings)
    return [
        Headline("Findings", str(len(result.findings)), note=f"{severe} that fail or limit"),
        Headline("Sessions at work", numbers.significant(load.at_work), note=cores),
        Headline("Transactions", numbers.significant(load.transactions_s), "per s"),
        Headline("Not checked", str(len(result.not_checked)), note="skipped is not passed"),
        Headline("Duration", numbers.significant(result.seconds), "s", note=manner),
    ]


def _csv(result: CheckResult) -> Iterator[Row]:
    """Yield one row per finding, then those of what was cleared and not checked."""
    empty: Row = {"severity": "", "share": None, "confidence": None, "advice": "", "commands": ""}
    for each in result.findings:
        yield {
            "id": each.id,
            "status": "found",
            "sentence": each.sentence,
            "severity": each.severity,
            "share": each.share,
            "confidence": each.confidence,
            "advice": each.advice,
            "commands": "; ".join(each.commands),
        }
    for cleared in result.cleared:
        yield {"id": cleared.id, "status": "cleared", "sentence": cleared.sentence, **empty}
    for unseen in result.not_checked:
        row = {"id": " ".join(unseen.checks), "status": "not checked", **empty}
        yield {**row, "sentence": f"{unseen.subject}: {unseen.why}", "advice": unseen.allow}


VIEW = View(
    _COMMAND,
    _sections,
    verdict=attrgetter("verdict"),
    rows=_csv,
    opening=_opening,
    of_result=_in_terminal,
    lines_max=200,
)
