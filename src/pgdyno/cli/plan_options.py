"""The option of commands that look at the plans of the load's statements."""

from typing import Annotated

import click

from pgdyno.cli.grouping import sets

Plans = Annotated[
    str | None,
    sets(
        "load.plans",
        "--plans",
        type=click.Choice(["none", "explain", "analyze"]),
        help="Look at the statements' plans beside what is measured: analyze also executes and"
        " undoes them, on your own server only reads (default: analyze on a server of pgdyno's,"
        " explain on yours).",
    ),
]
