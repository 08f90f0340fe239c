"""The parts that the HTML page is set from: texts, tables and figures, ready to read.

The template decides where things stand; ``sections`` and ``accounts`` say what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdyno.report.charts.chart import Chart
from pgdyno.report.words.tables import Table


@dataclass(frozen=True)
class Tag:
    """A word in a box; ``tone`` is good, warn, bad or plain."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Headline:
    """One of the large figures at the top."""

    label: str
    value: str
    unit: str = ""
    was: str = ""
    note: str = ""


@dataclass(frozen=True)
class Banner:
    """Something to know before reading on."""

    head: str
    text: str
    bad: bool = False


@dataclass(frozen=True)
class StepText:
    """One link of the chain as text."""

    number: int
    title: str
    sentence: str
    table: Table


@dataclass(frozen=True)
class Card:
    """A finding or a remedy."""

    title: str
    tags: Sequence[Tag]
    terms: Sequence[tuple[str, str]]
    sentence: str = ""
    evidence: Table | None = None
    lines: Sequence[str] = ()
    """What to type to have it."""
    undo: Sequence[str] = ()
    """What to type to be rid of it."""


@dataclass(frozen=True)
class Zoom:
    """A stretch of time to look at, in seconds."""

    label: str
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Entry:
    """A section in the list of contents."""

    id: str
    title: str


@dataclass(frozen=True)
class Frame:
    """What every kind of page has: who it is of, the verdict, how to repeat it."""

    name: str
    pgdyno_version: str
    run_file: str
    subtitle: Sequence[str]
    title: str
    verdict: str
    lead: str
    """What else there is to say of the verdict."""
    headline: Sequence[Headline]
    banners: Sequence[Banner]
    facts: Sequence[Table]
    repeat_says: str
    spec_lines: Sequence[str]
    spec_command: Sequence[str]
    repeat_lines: Sequence[str]


@dataclass(frozen=True)
class Page(Frame):
    """Everything that the template sets. What is empty leaves its section out."""

    figures_first: bool
    """Whether throughput, percentiles and statements stand before what was found."""
    noise: str
    comparison: str
    failures: str
    void: str
    steps: Sequence[StepText]
    closing: Sequence[str]
    findings: Sequence[Card]
    cleared: Table | None
    skipped: Table | None
    prices: Sequence[Card]
    ladder: Sequence[Table]
    ladder_says: Sequence[tuple[str, str]]
    ladder_p99: str
    ladder_against: Sequence[str]
    zooms: Sequence[Zoom]
    absent: str
    course: Sequence[tuple[str, Sequence[str]]]
    """Sudden changes and drops of a single run: a label and its sentences."""
    rates: Sequence[str]
    groups: Table | None
    connects: Table | None
    latency: Table | None
    statements: Table | None
    ledger: Table | None
    ledger_says: str
    errors: Table | None
    generator: Table | None
    generator_says: str
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
            *self.time_charts,
            *self.client_charts,
            *self.budget_charts,
        ]

    @property
    def contents(self) -> list[Entry]:
        """The sections that the page has."""
        figures = (self.latency, "latency", "Where the time goes")
        entries = (
            *((figures,) if self.figures_first else ()),
            (self.ladder, "ladder", "Gain against loss"),
            (self.steps, "steps", "Steps"),
            (self.comparison, "steps", "Comparison"),
            (self.findings or self.cleared or self.skipped, "findings", "Findings"),
            (self.prices, "prices", "Price list"),
            (self.time_charts, "time", "Over time"),
            (self.client_charts, "clients", "Against clients"),
            (self.groups or self.connects, "groups", "Client groups"),
            *(() if self.figures_first else (figures,)),
            (self.ledger, "ledger", "Ledger and errors"),
            (self.generator, "generator", "Generator"),
            (True, "facts", "The run"),
            (True, "repeat", "Repeat it"),
        )
        return [Entry(anchor, title) for there, anchor, title in entries if there]
