"""The contents of HTML pages as types: texts, tables and figures.

Templates decide the layout; ``_sections`` and ``words.accounts`` make the contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.report.charts.chart import Chart
from pgdyno.report.view import Banner, Card, Headline, Item, Tag, Text
from pgdyno.report.words.headlines import shortened
from pgdyno.report.words.tables import Table


class Block(Struct, frozen=True):
    """A part of a section: one of these."""

    charts: Sequence[Chart] = ()
    side_by_side: bool = True
    table: Table | None = None
    terms: Sequence[tuple[str, str]] = ()
    items: Sequence[Item] = ()
    text: Text | None = None
    banner: Banner | None = None
    tags: Sequence[Tag] = ()
    bullets: Sequence[str] = ()
    cards: Sequence[Card] = ()
    lines: Sequence[str] = ()


class OwnSection(Struct, frozen=True):
    """A section that one command has alone."""

    id: str
    title: str
    blocks: Sequence[Block]
    by_clients: bool = False
    """True if it has the charts by number of clients."""

    @property
    def charts(self) -> list[Chart]:
        """All its charts."""
        return [chart for block in self.blocks for chart in block.charts]


class Zoom(Struct, frozen=True):
    """A period that the time charts can show, in seconds."""

    label: str
    from_s: float
    to_s: float


class ContentsEntry(Struct, frozen=True):
    """A section in the list of contents."""

    id: str
    title: str


@dataclass(frozen=True)
class Frame:
    """The parts that every page has: title, verdict, sections that one command has alone, facts,
    commands that repeat it. A page with nothing else is that of a command without a load."""

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
    own: Sequence[OwnSection]
    facts: Sequence[Table]
    repeat_text: str
    spec_lines: Sequence[str]
    spec_command: Sequence[str]
    repeat_lines: Sequence[str]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [chart for section in self.own for chart in section.charts]

    @property
    def contents(self) -> list[ContentsEntry]:
        """The sections of the page."""
        own = [ContentsEntry(each.id, shortened(each.title)) for each in self.own if each.title]
        return [*own, ContentsEntry("facts", "The run"), ContentsEntry("repeat", "Repeat it")]


@dataclass(frozen=True)
class Page(Frame):
    """Contents of the page of a load; empty parts have no section."""

    figures_first: bool
    """True if latency and statements come before the findings."""
    has_trials: bool
    findings: Sequence[Card]
    cleared: Table | None
    skipped: Table | None
    prices: Sequence[Card]
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
    time_charts: Sequence[Chart] = field(default_factory=tuple)
    client_charts: Sequence[Chart] = field(default_factory=tuple)
    budget_charts: Sequence[Chart] = field(default_factory=tuple)

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [*super().charts, *self.time_charts, *self.client_charts, *self.budget_charts]

    @property
    def contents(self) -> list[ContentsEntry]:
        """The sections of the page."""
        figures = (self.latency, "latency", "Latency")
        entries = (
            *((figures,) if self.figures_first else ()),
            *((True, section.id, section.title) for section in self.own),
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
        return [ContentsEntry(anchor, title) for there, anchor, title in entries if there]
