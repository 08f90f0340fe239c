"""Sections of a report that one command has alone: the same parts on terminal and page, and CSV.

A view is a file of ``views/`` with a ``VIEW``; no other file of the report names it. The terminal
shows the parts of its sections one below the other, the page under the title of the section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from pgdyno.listing import by_name, held_by
from pgdyno.report.words.tables import Table
from pgdyno.shapes import Row

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.report.charts.chart import Chart
    from pgdyno.report.summary import RunSummary


class Answer(Struct, frozen=True):
    """The answer of the command in a sentence, which is the headline of the page."""

    sentence: str


class Terms(Struct, frozen=True):
    """Sentences by their labels; empty ones are not shown."""

    said: Mapping[str, str]
    styles: Mapping[str, str] = field(default_factory=dict)
    """Label → style in the terminal."""
    label_width: int | None = None
    """In the terminal; None: that of other labels."""
    are_names: bool = False
    """True if the labels are names, which are shown as they are."""


class Title(Struct, frozen=True):
    """The name of the next table, where the terminal has several."""

    text: str


class Commands(Struct, frozen=True):
    """Lines to copy."""

    lines: Sequence[str]


class Charts(Struct, frozen=True):
    """Charts, which only the page has; they are made when it is."""

    make: Callable[[], Sequence[Chart]]


class OnPage(Struct, frozen=True):
    """A part that only the page has."""

    part: Table | Terms | Commands


class InTerminal(Struct, frozen=True):
    """A part that only the terminal has."""

    part: Table | Terms | Title | Commands


Part: TypeAlias = Table | Answer | Terms | Commands | Charts | OnPage | InTerminal


class Section(Struct, frozen=True):
    """A section of the page, and lines of the terminal."""

    id: str
    title: str
    parts: Sequence[Part]


class View(Struct, frozen=True):
    """The sections and the CSV of one command."""

    command: str
    sections: Callable[[RunSummary], Sequence[Section]]
    """Those of a run; none if it is of another command."""
    rows: Callable[[Any], Iterator[Row]] | None = None
    """The rows of the result for ``--format csv``; None: those of the load."""
    measured: Callable[[RunFile], Table] | None = None
    """A table of what was measured, of a run that did not come to a result."""
    measured_rows: Callable[[RunFile], Iterator[Row]] | None = None
    """The same for ``--format csv``."""
    is_run: bool = False
    """True if it also has the figures of a single run."""


@cache
def views() -> dict[str, View]:
    """Return all views by name, in the order of their names."""
    from pgdyno.report import views as package

    return by_name(held_by(package, "VIEW"), "views", lambda view: view.command)
