"""Output of results as text, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pgdyno.cli.printed import print_json
from pgdyno.errors import RunError
from pgdyno.record.plain import plain
from pgdyno.visible import visible_within


def print_result(
    output_format: str, path: Path, result: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Print ``result`` in ``output_format``: the run file's summary, JSON, or ``rows`` as CSV."""
    try:
        if output_format == "json":
            print_json(plain(result))
        elif output_format == "csv":
            _print_csv(list(rows))
        else:
            print_summary(path)
        sys.stdout.flush()
    except RunError as problem:
        if problem.code == "result-unwritable":
            problem.hint = f"the recorded data is kept: pgdyno show {path} prints it again"
        raise


def print_summary(path: Path) -> None:
    """Print the terminal summary of a run file."""
    from pgdyno.record import RunFile
    from pgdyno.report import stdout_console, terminal_summary

    terminal_summary(RunFile(path), stdout_console())


def print_statements(path: Path) -> None:
    """Print latency and failures of every statement, as pgbench -r does."""
    from pgdyno.record import RunFile
    from pgdyno.report import statement_lines, stdout_console

    console = stdout_console()
    for line in statement_lines(RunFile(path)):
        console.print(line, soft_wrap=True, markup=False)


def _print_csv(rows: list[Mapping[str, Any]]) -> None:
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]))
        writer.writeheader()
        writer.writerows(visible_within(plain(row)) for row in rows)
