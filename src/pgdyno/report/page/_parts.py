"""The contents of HTML pages as types: texts, tables and figures.

Templates decide the layout; ``_sections`` and ``words.accounts`` make the contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.report.charts.chart import Chart
from pgdyno.report.words.tables import Table


class Tag(Struct, frozen=True):
    """A word in a coloured box; ``tone`` is good, warn, bad or plain."""

    text: str
    tone: str = "plain"


class Headline(Struct, frozen=True):
    """A large figure at the top."""

    label: str
    value: str
    unit: str = ""
    was: str = ""
    note: str = ""


class Banner(Struct, frozen=True):
    """A note at the top of the page."""

    head: str
    text: str
    bad: bool = False


class StepText(Struct, frozen=True):
    """A step of an investigation."""

    number: int
    title: str
    sentence: str
    table: Table


class Card(Struct, frozen=True):
    """A finding or a remedy."""

    title: str
    tags: Sequence[Tag]
    terms: Sequence[tuple[str, str]]
    sentence: str = ""
    evidence: Table | None = None
    lines: Sequence[str] = ()
    """Commands that apply it."""
    undo: Sequence[str] = ()
    """Commands that undo it."""


class Block(Struct, frozen=True):
    """A part of a section: charts side by side, a table, labelled sentences or lines to copy."""

    charts: Sequence[Chart] = ()
    table: Table | None = None
    terms: Sequence[tuple[str, str]] = ()
    lines: Sequence[str] = ()


class OwnSection(Struct, frozen=True):
    """A section that one command has alone."""

    id: str
    title: str
    blocks: Sequence[Block]

    @property
    def charts(self) -> list[Chart]:
        """All its charts."""
        return [chart for block in self.blocks for chart in block.charts]


class Zoom(Struct, frozen=True):
    """A period that the time charts can show, in seconds."""

    label: str
    from_s: float
    to_s: float


class Entry(Struct, frozen=True):
    """A section in the list of contents."""

    id: str
    title: str


def entries_of(sections: Iterable[tuple[object, str, str]]) -> list[Entry]:
    """Return the entries of the sections that are not empty: contents, id, title."""
    return [Entry(anchor, title) for there, anchor, title in sections if there]


@dataclass(frozen=True)
class Frame:
    """The parts that every page has: title, verdict, facts, commands that repeat it."""

    name: str
    pgdyno_version: str
    run_file: str
    subtitle: Sequence[str]
    title: str
    verdict: str
    lead: str
    """Text below the verdict."""
    headline: Sequence[Headline]
    banners: Sequence[Banner]
    facts: Sequence[Table]
    repeat_text: str
    spec_lines: Sequence[str]
    spec_command: Sequence[str]
    repeat_lines: Sequence[str]


@dataclass(frozen=True)
class Page(Frame):
    """Contents of the page of a load; empty parts have no section."""

    figures_first: bool
    """True if latency and statements come before the findings."""
    noise: str
    compared: bool
    """True for the page of a comparison."""
    comparison: str
    """Its result, unless the headline has it."""
    failures: str
    void: str
    steps: Sequence[StepText]
    closing: Sequence[str]
    findings: Sequence[Card]
    cleared: Table | None
    skipped: Table | None
    prices: Sequence[Card]
    ladder: Sequence[Table]
    ladder_sentences: Sequence[tuple[str, str]]
    ladder_p99: str
    ladder_against: Sequence[str]
    own: Sequence[OwnSection]
    """Sections that one command has alone."""
    records: Sequence[tuple[str, str]]
    """Sentences about records of entity-resolution, each with its label."""
    zooms: Sequence[Zoom]
    absent: str
    course: Sequence[tuple[str, Sequence[str]]]
    """Sudden changes and drops of a single run: label and sentences."""
    rates: Sequence[str]
    groups: Table | None
    connects: Table | None
    sessions: Sequence[Table]
    sessions_text: str
    latency: Table | None
    statements: Table | None
    statements_text: str
    """Executions that their times leave out, in a sentence."""
    budget: Sequence[Table]
    """The latency budget: parts of the response time, and of each statement."""
    budget_text: str
    """Sentences about time that the budget cannot divide."""
    server_statements: Sequence[str]
    """Sentences about the server's own counts of statements."""
    server_statement_tables: Sequence[Table]
    vacuum: Sequence[str]
    """Sentences about vacuum."""
    vacuum_tables: Sequence[Table]
    ledger: Table | None
    ledger_text: str
    errors: Table | None
    pooler_text: str
    generator: Table | None
    generator_text: str
    ladder_charts: Sequence[Chart] = field(default_factory=tuple)
    step_charts: Sequence[Chart] = field(default_factory=tuple)
    time_charts: Sequence[Chart] = field(default_factory=tuple)
    client_charts: Sequence[Chart] = field(default_factory=tuple)
    budget_charts: Sequence[Chart] = field(default_factory=tuple)

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [
            *self.ladder_charts,
            *self.step_charts,
            *(chart for section in self.own for chart in section.charts),
            *self.time_charts,
            *self.client_charts,
            *self.budget_charts,
        ]

    @property
    def contents(self) -> list[Entry]:
        """The sections of the page."""
        figures = (self.latency, "latency", "Latency")
        entries = (
            *((figures,) if self.figures_first else ()),
            (self.ladder, "ladder", "Gain and loss"),
            (self.steps, "steps", "Steps"),
            (self.compared, "steps", "Comparison"),
            *((True, section.id, section.title) for section in self.own),
            (self.records, "records", "Records"),
            (self.findings or self.cleared or self.skipped, "findings", "Findings"),
            (self.prices, "prices", "Price list"),
            (self.time_charts, "time", "Over time"),
            (self.client_charts, "clients", "By number of clients"),
            (self.groups or self.connects, "groups", "Client groups"),
            (self.sessions, "client-sessions", "Client sessions"),
            *(() if self.figures_first else (figures,)),
            (self.server_statements, "server-statements", "On the server"),
            (self.vacuum_tables, "vacuum", "Vacuum"),
            (self.ledger, "ledger", "Ledger and errors"),
            (self.pooler_text, "pooler", "Pooler"),
            (self.generator, "generator", "Load generator"),
            (True, "facts", "The run"),
            (True, "repeat", "Repeat it"),
        )
        return entries_of(entries)
