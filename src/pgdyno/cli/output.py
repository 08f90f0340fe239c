"""Output on stdout: results as text, JSON (one document for each command) or CSV; text is made
printable."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from pgdyno.errors import RunError, SetupError
from pgdyno.escaping import visible, visible_line, visible_within
from pgdyno.redact import blank

_BREAK = re.compile(r"\n(?!  )")


@dataclass
class Printed:
    """State of the current command's output; click's context object."""

    json: bool = False


def print_json(value: object) -> None:
    """Print JSON in ASCII, which is safe in every encoding and terminal."""
    context = click.get_current_context(silent=True)
    printed = context.find_object(Printed) if context is not None else None
    if printed is not None:
        printed.json = True
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def printable(text: str) -> str:
    """Return a line that may quote a server, a file or user input, made safe for a terminal."""
    return visible_line(blank(text))


def printable_lines(text: str) -> str:
    """Return text made safe for a terminal, in which only indented lines can begin: no name begins
    one that looks like the next message."""
    return _BREAK.sub(r"\\n", visible(blank(text)))


def notes(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a note to stderr, or does nothing with ``quiet``."""
    return (lambda text: None) if quiet else (lambda text: click.echo(printable(text), err=True))


def print_result(output_format: str, path: Path, result: Mapping[str, object]) -> None:
    """Print ``result`` as JSON, or of the run file its summary or its rows as CSV."""
    try:
        if output_format == "json":
            from pgdyno.record.plain import plain

            print_json(plain(result))
        elif output_format == "csv":
            print_rows(path)
        else:
            print_summary(path)
        sys.stdout.flush()
    except RunError as problem:
        if problem.code == "result-unwritable":
            problem.hint = f"the recorded data is kept: pgdyno show {path} prints it again"
        raise


def write_page(path: Path, page: Path | None) -> None:
    """Write the HTML page of a run file, if one is wanted."""
    if page is not None:
        from pgdyno.record import RunFile
        from pgdyno.report import write_html

        try:
            write_html(RunFile(path), page)
        except SetupError as problem:
            problem.hint = f"{problem.hint}; the run file is kept: pgdyno report {path} makes it"
            raise


def print_summary(path: Path) -> None:
    """Print the terminal summary of a run file."""
    from pgdyno.record import RunFile
    from pgdyno.report import stdout_console, terminal_summary

    terminal_summary(RunFile(path), stdout_console())


def print_statements(path: Path) -> None:
    """Print latency and failures of every statement, as pgbench -r does."""
    from pgdyno.record import RunFile
    from pgdyno.report import statement_lines

    for line in statement_lines(RunFile(path)):
        print(visible_line(line))


def print_rows(path: Path) -> None:
    """Print the rows of a run file as CSV."""
    from pgdyno.record import RunFile
    from pgdyno.report.rows import result_rows

    with RunFile(path) as run:
        print_csv(result_rows(run))


def print_csv(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows with the same columns as CSV; nothing if there are none."""
    from pgdyno.record.plain import plain

    listed = list(rows)
    if listed:
        writer = csv.DictWriter(sys.stdout, list(listed[0]))
        writer.writeheader()
        writer.writerows(visible_within(plain(row)) for row in listed)
