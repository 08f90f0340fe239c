"""Print the summary of a run file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.output import print_json, print_rows, print_summary
from pgdyno.escaping import visible

HELP_ORDER = 80


@click.command("show")
@taking_options
def command(
    run: Annotated[str, click.argument("run", metavar="RUN")],
    output_format: Annotated[
        str,
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["text", "json", "csv", "spec"]),
            default="text",
            help="Summary, JSON result, its rows as CSV, or the spec that repeats the run (default"
            " text).",
        ),
    ],
) -> None:
    """Print the summary of a run file."""
    from pgdyno.record import refusing_invalid

    with refusing_invalid(Path(run)):
        _show(Path(run), output_format)


def _show(run: Path, output_format: str) -> None:
    if output_format == "text":
        print_summary(run)
        return
    if output_format == "csv":
        print_rows(run)
        return
    from pgdyno.conduct.repeating import require_load
    from pgdyno.investigate.unfinished import recorded_result
    from pgdyno.record import RunFile
    from pgdyno.spec import spec_from_fields, spec_to_toml

    with RunFile(run) as file:
        about = file.run
        if output_format == "spec":
            require_load(file)
        if output_format == "json":
            print_json(recorded_result(file))
    if output_format == "spec":
        spec = spec_to_toml(spec_from_fields(about.spec, where=str(run)))
        # Redirected output must be the exact spec.
        click.echo(visible(spec) if sys.stdout.isatty() else spec, nl=False)
