"""Sections of a report that one command has alone: the same parts on terminal and page, and CSV.

A view is a file of ``views/`` with a ``VIEW``, named after the command, or after a part that the
results of some commands have; a report imports those that it shows. The terminal shows the parts of
its sections one below the other, the page under the title of the section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.registry import module_named
from pgdyno.report.words.tables import Table
from pgdyno.results import result_type

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.report.charts.chart import Chart


class _SectionPart(Struct, frozen=True):
    """A part of a section."""


class Answer(_SectionPart, frozen=True):
    """The answer of the command in a sentence, which is the headline of the page."""

    sentence: str


class Term(Struct, frozen=True):
    """A sentence with its label."""

    label: str
    text: str
    style: str = ""
    """In the terminal."""
    spare: bool = False
    """True if the terminal leaves it out first."""
    indent: int = 0
    """Columns by which the terminal makes the label wider than others."""
    in_one_line: bool = False
    """True if the terminal shows of the text what fits a line."""


class Terms(_SectionPart, frozen=True):
    """Sentences by their labels; empty ones are not shown."""

    said: Mapping[str, str] | Sequence[Term]
    label_width: int | None = None
    """In the terminal; None: that of other labels."""
    are_names: bool = False
    """True if the labels are names, which are shown as they are."""
    as_written: bool = False
    """True if the page gives the texts no capital and no period."""

    @property
    def terms(self) -> list[Term]:
        """The sentences that are not empty."""
        said = self.said
        terms = [Term(*each) for each in said.items()] if isinstance(said, Mapping) else said
        return [each for each in terms if each.text]


class Text(_SectionPart, frozen=True):
    """A paragraph."""

    text: str
    style: str = ""
    """In the terminal."""
    small: bool = False
    """True for an explanation in small letters."""


class BlankLine(_SectionPart, frozen=True):
    """An empty line of the terminal."""


class Commands(_SectionPart, frozen=True):
    """Lines to copy; with a label, they stand beside it in the terminal."""

    lines: Sequence[str]
    label: str = ""
    indent: int = 0
    """In the terminal, of lines without a label."""


class Fields(_SectionPart, frozen=True):
    """Fields side by side in the terminal; those that do not fit continue below."""

    first: str
    rest: Sequence[str]
    style: str = ""
    spare: bool = False


class Shared(_SectionPart, frozen=True):
    """Lines of the terminal that single runs have as well."""

    lines: Literal["findings", "budget"]


class Item(Struct, frozen=True):
    """An item of a numbered list."""

    title: str
    text: str
    table: Table | None = None


class Numbered(_SectionPart, frozen=True):
    """A numbered list, which only the page has."""

    items: Sequence[Item]


class Charts(_SectionPart, frozen=True):
    """Charts, which only the page has; they are made when it is."""

    make: Callable[[], Sequence[Chart]]
    side_by_side: bool = True
    by_clients: bool = False
    """True if they show the load by number of clients, for which the page has a section else."""


class Tag(Struct, frozen=True):
    """A word in a coloured box; ``tone`` is good, warn, bad or plain."""

    text: str
    tone: str = "plain"


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


class Banner(_SectionPart, frozen=True):
    """A note at the top of the page, or of a section."""

    head: str
    text: str
    bad: bool = False


class Tags(_SectionPart, frozen=True):
    """Words in coloured boxes, which only the page has."""

    tags: Sequence[Tag]


class Bullets(_SectionPart, frozen=True):
    """A list of sentences, which only the page has."""

    sentences: Sequence[str]


class Cards(_SectionPart, frozen=True):
    """Cards, which only the page has."""

    cards: Sequence[Card]


class OnPage(_SectionPart, frozen=True):
    """A part that only the page has."""

    part: Part


class InTerminal(_SectionPart, frozen=True):
    """A part that only the terminal has."""

    part: Part


Part: TypeAlias = _SectionPart | Table


class Section(Struct, frozen=True):
    """A section of the page, and lines of the terminal."""

    id: str
    title: str
    parts: Sequence[Part]


_Summary: TypeAlias = Any
"""A ``RunSummary``, whose module imports this one."""


class Headline(Struct, frozen=True):
    """A large figure at the top of the page."""

    label: str
    value: str
    unit: str = ""
    was: str = ""
    note: str = ""


class Opening(Struct, frozen=True):
    """The top of the page of a command that has no load of its own."""

    verdict: str
    figures: Sequence[Headline]
    banners: Sequence[Banner] = ()
    repeat: Sequence[str] = ()
    """The command that repeats it; none: that of the run file and its spec."""


class View(Struct, frozen=True):
    """All that a report knows of one command: its sections, its CSV, and how its runs differ from
    others."""

    command: str
    sections: Callable[[_Summary], Sequence[Section]] = lambda _: ()
    """Those of a run of the command."""
    and_of: tuple[str, ...] = ()
    """Views whose sections stand below its own: those of parts that its result may have."""
    verdict: Callable[[Any], str | None] = lambda _: None
    """The verdict of the result in a sentence."""
    headline: Callable[[_Summary], str] = lambda _: ""
    """The headline of the page where it is not the verdict."""
    rows: Callable[[Any], Iterator[Row]] | None = None
    """The rows of the result for ``--format csv``."""
    measured: Callable[[RunFile], Table] | None = None
    """A table of what was measured, of a run that did not come to a result."""
    measured_rows: Callable[[RunFile], Iterator[Row]] | None = None
    """Its rows for ``--format csv``, or those of each run if ``rows`` is None."""
    of_result: Callable[[Any], Sequence[Part]] | None = None
    """The parts that the terminal shows of a result that no run file keeps."""
    opening: Callable[[_Summary], Opening] | None = None
    """The top of a page that has these sections alone, and none of a load. Raises UsageError if
    there is nothing to show."""
    source: str = ""
    """The measurement that the figures at the start are from, in a few words."""
    varies: Literal["", "clients", "pools"] = ""
    """The number that it searches, of which the spec's says nothing."""
    is_run: bool = False
    """True if it has the figures of a single run, those of its whole time."""
    has_several_loads: bool = False
    """True if figures of the whole run would be of no load."""
    makes_incidents: bool = False
    """True if incidents of the server are its own doing."""
    lines_max: int = 64
    """Limit of the lines in the terminal."""


def found_view(command: str) -> View | None:
    """Return the view of a command; None if it has none."""
    found: View | None = getattr(module_named("pgdyno.report.views", command), "VIEW", None)
    return found


def view_of(command: str) -> View:
    """Return the view of a command; that of a single run without sections if it has none.

    Raises LookupError if it has a result, whose members that view does not know.
    """
    found = found_view(command)
    if found is None and result_type(command) is not None:
        raise LookupError(f"report/views has no view of pgdyno {command}")
    return found or View(command, is_run=True)


def sections_of(summary: _Summary) -> list[Section]:
    """Return the sections that a run has beside those of its load."""
    own: View = summary.view
    views = (own, *map(view_of, own.and_of))
    return [section for view in views for section in view.sections(summary)]
