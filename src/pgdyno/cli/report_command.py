"""``pgdyno report``: a run file as one HTML page, or the chapters of a story as one."""

from __future__ import annotations

import io
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from pgdyno.visible import visible


@click.command("report")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The page (default beside the run file; - is stdout).",
)
def command(runs: tuple[Path, ...], output: str | None) -> None:
    """Read a run file: one self-contained HTML page.

    Several run files are the chapters of a story, which have one page together.
    """
    from pgdyno.cli.files import STDOUT, page_path
    from pgdyno.record import RunFile, making_sense_of
    from pgdyno.report import write_html, write_story
    from pgdyno.report.page.html import render, render_story

    first = runs[0]
    with ExitStack() as stack:
        stack.enter_context(making_sense_of(first))
        recorded = [stack.enter_context(RunFile(path)) for path in runs]
        if output == STDOUT:
            _print_page(render(recorded[0]) if len(recorded) == 1 else render_story(recorded))
            return
        if len(recorded) == 1:
            page = write_html(recorded[0], page_path(output, first))
        else:
            whole = first.with_stem(re.sub(r"-\d+$", "", first.stem))
            page = write_story(recorded, page_path(output, whole))
    click.echo(visible(str(page)))


def _print_page(page: str) -> None:
    """To stdout, in the encoding that the page says it has."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    click.echo(page, nl=False)
