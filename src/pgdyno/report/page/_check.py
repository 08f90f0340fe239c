"""Contents of the HTML page of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno import numbers
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding, ProvingCommand
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.over_time import time_charts
from pgdyno.report.charts.time_axis import time_axis
from pgdyno.report.page._parts import Card, Entry, Frame, Headline, Tag, entries_of
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import accounts, headlines, prose, sentences
from pgdyno.report.words.checks import gain_words
from pgdyno.report.words.findings import finding_name
from pgdyno.report.words.tables import Table
from pgdyno.results.check import CheckResult, ObservedLoad, WriteProbe
from pgdyno.visible import shell_line

TEMPLATE = "check.html.j2"
TONES = {"will fail": "bad", "limit": "warn", "costs": "plain", "minor": "plain"}
DASH = "—"


@dataclass(frozen=True)
class CheckPage(Frame):
    """Contents of the page; empty parts have no section."""

    findings: Sequence[Card]
    cleared: Table | None
    not_checked: Table | None
    commits: Table | None
    waits: Table | None
    statements: Table | None
    costliest: str
    time_charts: Sequence[Chart]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return list(self.time_charts)

    @property
    def contents(self) -> list[Entry]:
        """The sections of the page."""
        entries = (
            (self.findings, "findings", "Findings"),
            (self.commits, "commits", "Commits"),
            (self.waits or self.statements, "load", "The load"),
            (self.time_charts, "time", "Over time"),
            (self.not_checked, "unseen", "Not checked"),
            (self.cleared, "cleared", "Checked and cleared"),
            (True, "facts", "The run"),
            (True, "repeat", "Repeat it"),
        )
        return entries_of(entries)


def make_page(run: RunFile) -> CheckPage:
    """Return the contents of the page of a check. Raises UsageError for one that did not end."""
    info, result = run.run, RunSummary(run).check
    if result is None:
        raise UsageError(
            f"{run.path} ended before the check did: {info.status_detail or info.status}",
            code="check-unfinished",
        )
    verdict, lead = headlines.headline_of(result.verdict)
    uri = str(info.server.get("entrance_uri") or result.server.uri)
    return CheckPage(
        name=info.name,
        pgdyno_version=info.pgdyno_version,
        run_file=run.path.name,
        subtitle=[*sentences.setting_of_run(info), sentences.started_at(info)],
        title=headlines.title_of(info.name, verdict),
        verdict=verdict,
        lead=lead,
        headline=_headline(result),
        banners=[],
        findings=[_card(each) for each in result.findings],
        cleared=_cleared(result),
        not_checked=_not_checked(result),
        commits=_commits(result.write_probe),
        waits=_waits(result.load),
        statements=_statements(result.load),
        costliest=result.load.costliest.sentence,
        time_charts=time_charts(time_axis(run)),
        facts=accounts.fact_tables(run),
        repeat_text="",
        spec_lines=[],
        spec_command=[],
        repeat_lines=[shell_line(["pgdyno", "check", uri])],
    )


def _headline(result: CheckResult) -> list[Headline]:
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


def _card(finding: Finding) -> Card:
    name, severity = finding_name(finding.id), finding.severity or "minor"
    causes = [finding_name(cause) for cause in finding.causes]
    terms = [
        ("Share", "" if not finding.share else f"{numbers.percent(finding.share)} of the time"),
        ("Confidence", numbers.percent(finding.confidence)),
        ("Symptom of", numbers.listed(causes, most=None)),
        ("Wrong if", prose.sentence(finding.false_positives)),
        ("Advice", prose.sentence(finding.advice)),
        *((f"To prove {each.title}", _proof(each)) for each in finding.prove),
    ]
    rows = [
        [each.name, numbers.measured(each.value, each.unit), each.threshold or ""]
        for each in finding.evidence
    ]
    head = ["Evidence", "measured", "threshold"]
    evidence = Table(f"Evidence for the {name}", head, rows, right=frozenset((1,)))
    return Card(
        title=prose.capital(name),
        tags=[Tag(severity, TONES[severity])],
        terms=[(term, text) for term, text in terms if text],
        sentence=prose.sentence(finding.sentence),
        evidence=evidence if rows else None,
        lines=finding.commands,
    )


def _proof(proof: ProvingCommand) -> str:
    return f"{proof.command} ({gain_words(proof)}, {proof.durability_class})"


def _cleared(result: CheckResult) -> Table | None:
    rows = [
        [prose.capital(finding_name(each.id)), prose.sentence(each.sentence)]
        for each in result.cleared
    ]
    return Table("Checked and cleared", ["Check", "Reason"], rows) if rows else None


def _not_checked(result: CheckResult) -> Table | None:
    rows = [
        [each.subject, prose.sentence(each.why), each.allow or DASH] for each in result.not_checked
    ]
    head = ["Subject", "reason", "allowed by"]
    return Table("Not checked, and therefore not passed", head, rows) if rows else None


def _commits(probe: WriteProbe | None) -> Table | None:
    if probe is None:
        return None
    rows = [
        ["mean", numbers.significant(probe.mean_ms)],
        *([f"of it {each.part}", numbers.significant(each.mean_ms)] for each in probe.parts),
        ["p50", numbers.significant(probe.p50_ms)],
        ["p95", numbers.significant(probe.p95_ms)],
        ["p99", numbers.significant(probe.p99_ms)],
        ["longest", numbers.significant(probe.max_ms)],
        ["select 1, p50", numbers.significant(probe.round_trip_p50_ms)],
    ]
    caption = f"{probe.commits:,} inserts of one client, each with its commit"
    return Table(caption, ["Time", "ms"], rows, right=frozenset((1,)))


def _waits(load: ObservedLoad) -> Table | None:
    rows = [[each.event, numbers.significant(each.sessions)] for each in load.waits]
    caption = f"Sessions in a transaction by what they wait for, {load.samplings:,} samples"
    head = ["Wait event", "sessions"]
    return Table(caption, head, rows, right=frozenset((1,))) if rows else None


def _statements(load: ObservedLoad) -> Table | None:
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
    return Table(caption, head, rows, right=frozenset(range(1, 6))) if rows else None
