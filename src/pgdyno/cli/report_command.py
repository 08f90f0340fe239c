"""``pgdyno report``: a run file as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", metavar="FILE", help="The page (default beside the run file).")
def command(run: str, output: str | None) -> None:
    """Read a run file: one self-contained HTML page."""
    from pgdyno.record import RunFile
    from pgdyno.report import write_html

    path = Path(run)
    click.echo(write_html(RunFile(path), Path(output) if output else path.with_suffix(".html")))
