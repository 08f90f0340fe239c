"""Commands that measure what a run proposes and did not try: changes of a user's tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pgdyno.facts.autovacuum import recorded_options
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding
from pgdyno.remedy.comparing import compare_words
from pgdyno.report.view import view_of
from pgdyno.report.words.repeat import server_words
from pgdyno.spec.change import Change
from pgdyno.visible import shell_line

SHOWN_MAX = 2
_NOT_COMPARED = ("branches", "story", "govern")
"""Parts of a spec that a comparison cannot have."""


def compare_line(run: RunFile, change: Change) -> str:
    """Return the command that measures a change of tables of an existing server, with the load of
    the run; '' for other changes, and for servers of pgdyno, where it measures them itself."""
    info = run.run
    if info.server.get("kind") != "existing" or not (change.indexes or change.table_options):
        return ""
    without_load = view_of(info.command).opening is not None
    if without_load or any(info.spec.get(part) for part in _NOT_COMPARED):
        return ""
    before = recorded_options(run) if change.table_options else None
    options = compare_words(change, existing=True, before=before)
    source = str(run.path.absolute())
    return shell_line(["pgdyno", "compare", source, *server_words(info), *options])


def compare_lines(run: RunFile, finding: Finding) -> list[str]:
    """Return the commands for what a finding proposes, at most ``SHOWN_MAX``."""
    return list(islice(_lines(run, finding), SHOWN_MAX))


def _lines(run: RunFile, finding: Finding) -> Iterator[str]:
    for proposal in finding.proposals:
        if line := compare_line(run, proposal.change):
            yield line
