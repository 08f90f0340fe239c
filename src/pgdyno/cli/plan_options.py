"""The option of commands that look at the plans of the load's statements."""

from typing import Annotated

import click

from pgdyno.cli.grouping import sets

Plans = Annotated[
    str | None,
    sets(
        "load.plans",
        "--plans",
        type=click.Choice(["none", "explain", "analyze", "try"]),
        help="Look at the statements' plans beside what is measured: analyze also executes reads,"
        " try executes and undoes all, and tries changes (default: try on a server of pgdyno's,"
        " explain on yours).",
    ),
]
