"""Write a run file as one self-contained HTML page."""

from __future__ import annotations

import io
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.escaping import visible

HELP_ORDER = 90


@click.command("report")
@taking_options
def command(
    runs: Annotated[
        tuple[Path, ...],
        click.argument(
            "runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path)
        ),
    ],
    output: Annotated[
        str | None,
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            help="Page to write (default: beside the run file; - writes to stdout).",
        ),
    ],
) -> None:
    """Write a run file as one self-contained HTML page.

    Several run files are the chapters of a story and are written to one page.
    """
    from pgdyno.cli.files import STDOUT, page_path, story_path
    from pgdyno.record import RunFile, refusing_invalid
    from pgdyno.report import write_html, write_story
    from pgdyno.report.page.html import render, render_story

    first = runs[0]
    with ExitStack() as stack:
        stack.enter_context(refusing_invalid(first))
        recorded = [stack.enter_context(RunFile(path)) for path in runs]
        if output == STDOUT:
            _print_page(render(recorded[0]) if len(recorded) == 1 else render_story(recorded))
            return
        if len(recorded) == 1:
            page = write_html(recorded[0], page_path(output, first))
        else:
            page = write_story(recorded, page_path(output, story_path(first)))
    click.echo(visible(str(page)))


def _print_page(page: str) -> None:
    """Print the page on stdout in UTF-8, the encoding that it declares."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    click.echo(page, nl=False)
