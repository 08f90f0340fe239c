"""The sections that one command has alone, as contents of the page."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.report.page._parts import Block, OwnSection
from pgdyno.report.summary import RunSummary
from pgdyno.report.view import Charts, Commands, OnPage, Part, Terms, views
from pgdyno.report.words import prose
from pgdyno.report.words.tables import Table


def own_sections(summary: RunSummary) -> list[OwnSection]:
    """Return the sections of all views that the run has."""
    return [
        OwnSection(section.id, section.title, [b for part in section.parts for b in _blocks(part)])
        for view in views().values()
        for section in view.sections(summary)
    ]


def _blocks(given: Part) -> Iterator[Block]:
    match given.part if isinstance(given, OnPage) else given:
        case Table() as table:
            yield Block(table=table)
        case Terms(said=said, are_names=are_names):
            yield Block(
                terms=[
                    (label if are_names else prose.capital(label), prose.sentence(text))
                    for label, text in said.items()
                ]
            )
        case Charts(make):
            yield Block(charts=list(make()))
        case Commands(lines):
            yield Block(lines=lines)
