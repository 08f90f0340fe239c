"""``pgdyno report``: a run file as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.visible import visible


@click.command("report")
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", metavar="FILE", help="The page (default beside the run file).")
def command(run: str, output: str | None) -> None:
    """Read a run file: one self-contained HTML page."""
    from pgdyno.cli.files import page_path
    from pgdyno.record import RunFile, making_sense_of
    from pgdyno.report import write_html

    path = Path(run)
    with making_sense_of(path), RunFile(path) as recorded:
        page = write_html(recorded, page_path(output, path))
    click.echo(visible(str(page)))
