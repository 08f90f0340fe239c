"""Commands that repeat a run, from its run file or from its spec without it, and commands that
measure what it proposes and did not try: changes of a user's tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pgdyno.escaping import shell_line
from pgdyno.facts.autovacuum import recorded_options
from pgdyno.record import RunFile, RunInfo
from pgdyno.record.finding import Finding
from pgdyno.report.view import view_of
from pgdyno.spec.change import Change

SHOWN_MAX = 2
_NOT_COMPARED = ("branches", "story", "govern")
"""Parts of a spec that a comparison cannot have."""


def repeat_lines(run: RunFile) -> list[str]:
    """Return the command that repeats the run from its run file, for any working directory."""
    return [command_of(run, str(run.path.absolute()))]


def story_command(path: Path) -> str:
    """Return the command that repeats a story from the run file of one of its chapters."""
    return shell_line(["pgdyno", "story", str(path.absolute())])


def spec_command(run: RunFile) -> str:
    """Return the command that repeats the run from its spec, saved under its name."""
    return command_of(run, f"{run.run.name}.toml")


def save_spec_text(info: RunInfo) -> str:
    """Return the sentence above the spec."""
    sentence = f"Without the run file, save this spec as {info.name}.toml:"
    if info.server.get("kind") == "existing":
        return f"Neither contains a password: put it into ~/.pgpass or PGPASSWORD. {sentence}"
    return sentence


def command_of(run: RunFile, source: str) -> str:
    """Return the command line that repeats the run from ``source``."""
    info = run.run
    words = ["pgdyno", info.command, source, *server_words(info)]
    if (info.spec.get("workload") or {}).get("initialize"):
        words.append("--initialize")
    return shell_line(map(str, [*words, *info.asked]))


def server_words(info: RunInfo) -> list[str]:
    """Return the words that name the server of a run; none for one that pgdyno starts."""
    if info.server.get("kind") != "existing":
        return []
    entrance, server = info.server.get("entrance_uri"), info.server.get("uri")
    words = [str(entrance or server or "CONNINFO")]
    return [*words, "--control", str(server)] if entrance else words


def compare_line(run: RunFile, change: Change) -> str:
    """Return the command that measures a change of tables of an existing server, with the load of
    the run; '' for other changes, and for servers of pgdyno, where it measures them itself."""
    info = run.run
    if info.server.get("kind") != "existing" or not (change.indexes or change.table_options):
        return ""
    without_load = view_of(info.command).opening is not None
    if without_load or any(info.spec.get(part) for part in _NOT_COMPARED):
        return ""
    from pgdyno.remedy.lines import compare_words

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
