"""Show the differences between two run files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import TextOrJson
from pgdyno.cli.output import print_json

HELP_ORDER = 100


@click.command("diff")
@taking_options
def command(
    a: Annotated[Path, click.argument("a", metavar="A.db", type=click.Path(path_type=Path))],
    b: Annotated[Path, click.argument("b", metavar="B.db", type=click.Path(path_type=Path))],
    output_format: TextOrJson,
) -> None:
    """Show the differences between two run files.

    Lists differences in spec, settings, server, host and engine, and shows throughput, percentiles,
    statements, waits and failures with their ratios, and the statements whose plan differs. It
    gives no verdict, because two runs are not interleaved pairs; pgdyno compare measures whether a
    change helps.

    \b
      pgdyno diff monday.db tuesday.db
    """
    from pgdyno.record import RunFile, refusing_invalid
    from pgdyno.report import stdout_console
    from pgdyno.report.terminal.diff import print_diff
    from pgdyno.report.words.diff import diff

    with RunFile(a) as one, RunFile(b) as other, refusing_invalid(a), refusing_invalid(b):
        result = diff(one, other)
    if output_format == "json":
        print_json(result.to_json())
    else:
        print_diff(result, stdout_console())
