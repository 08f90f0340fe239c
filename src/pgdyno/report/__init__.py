"""Reports from run files: one self-contained HTML page, and summaries for the terminal.

Both read only the run file, never a server, so that every run can be reported again. The contents
depend on the command that made the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from pgdyno.record import RunFile
    from pgdyno.results import Result

__all__ = [
    "check_page_path",
    "result_summary",
    "statement_lines",
    "stdout_console",
    "terminal_summary",
    "write_html",
    "write_story",
]


def write_html(run: RunFile, path: Path | str) -> Path:
    """Write the HTML report of ``run`` to ``path`` and return it. Raises SetupError."""
    from pgdyno.report.page import html

    return html.write_html(run, path)


def write_story(runs: Sequence[RunFile], path: Path | str) -> Path:
    """Writes a single HTML page for the runs of a story to ``path``, and returns ``path``."""
    from pgdyno.report.page import html

    return html.write_story(runs, path)


def check_page_path(path: Path) -> None:
    """Raise UsageError or SetupError if no report can be written to ``path``."""
    from pgdyno.report.page import _page_path

    _page_path.check_page_path(path)


def terminal_summary(run: RunFile, console: Console | None) -> None:
    """Print the summary of ``run``."""
    from pgdyno.report.terminal import _run_summary

    _run_summary.terminal_summary(run, console)


def result_summary(command: str, result: Result, console: Console | None) -> None:
    """Print the summary of a command's result, of which there need be no run file."""
    from pgdyno.report.terminal import _run_summary

    _run_summary.result_summary(command, result, console)


def statement_lines(run: RunFile) -> Iterator[str]:
    """Yield lines with latency and failures of every statement of ``run``."""
    from pgdyno.report.terminal import _load

    return _load.per_statement_lines(run)


def stdout_console() -> Console | None:
    """Return a console on stdout that honours NO_COLOR and PG_COLOR; None for plain output."""
    from pgdyno.report.terminal import _run_summary

    return _run_summary.stdout_console()
