"""``pgdyno report``: a run file as one HTML page, or the chapters of a story as one."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import click

from pgdyno.visible import visible


@click.command("report")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", metavar="FILE", help="The page (default beside the run file).")
def command(runs: tuple[Path, ...], output: str | None) -> None:
    """Read a run file: one self-contained HTML page.

    Several run files are the chapters of a story, which have one page together.
    """
    from pgdyno.cli.files import page_path
    from pgdyno.record import RunFile, making_sense_of
    from pgdyno.report import write_html, write_story

    first = runs[0]
    with ExitStack() as stack:
        stack.enter_context(making_sense_of(first))
        recorded = [stack.enter_context(RunFile(path)) for path in runs]
        if len(recorded) == 1:
            page = write_html(recorded[0], page_path(output, first))
        else:
            whole = first.with_stem(re.sub(r"-\d+$", "", first.stem))
            page = write_story(recorded, page_path(output, whole))
    click.echo(visible(str(page)))
