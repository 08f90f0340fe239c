"""Reports from run files: one self-contained HTML page, and summaries for the terminal.

Both read the run file only, never a server, so any run can be reported again. ``write_html`` and
``terminal_summary`` choose by the command that made the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from pgdyno.record import RunFile

__all__ = [
    "check_page_place",
    "statement_lines",
    "stdout_console",
    "terminal_summary",
    "write_html",
    "write_story",
]


def write_html(run: RunFile, path: Path | str) -> Path:
    """Writes the HTML report of ``run`` to ``path``, returned. SetupError if it cannot."""
    from pgdyno.report.page import html

    return html.write_html(run, path)


def write_story(runs: Sequence[RunFile], path: Path | str) -> Path:
    """Writes the one page of a story, whose chapters ``runs`` are, to ``path``, returned."""
    from pgdyno.report.page import html

    return html.write_story(runs, path)


def check_page_place(path: Path) -> None:
    """UsageError or SetupError if no report can be written to ``path``; asked before a run."""
    from pgdyno.report.page import _page_path

    _page_path.check_page_place(path)


def terminal_summary(run: RunFile, console: Console) -> None:
    """Prints the summary of ``run``, in under 40 lines."""
    from pgdyno.report.terminal import _run_summary

    _run_summary.terminal_summary(run, console)


def statement_lines(run: RunFile) -> Iterator[str]:
    """Latency and failures of every statement of ``run``, in lines."""
    from pgdyno.report.terminal import _per_statement

    return _per_statement.statement_lines(run)


def stdout_console() -> Console:
    """A console that honours NO_COLOR and PG_COLOR and is plain when stdout is no terminal."""
    from pgdyno.report.terminal import _run_summary

    return _run_summary.stdout_console()
