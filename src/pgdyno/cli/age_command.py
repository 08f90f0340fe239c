"""Bring a server to an old transaction ID age, load it, and let it recover."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import sets, taking_options
from pgdyno.cli.load_options import UnplannedLoad
from pgdyno.cli.options import (
    OutputOptions,
    ProgressOptions,
    StartSettings,
    given_options,
)
from pgdyno.cli.types import Duration

HELP_ORDER = 62


class AgeOptions(Struct, frozen=True, kw_only=True):
    """The age, and how long the server is loaded before, at and after it."""

    to: Annotated[
        str | None,
        click.option(
            "--to",
            metavar="AGE",
            help="Age of the oldest transaction ID, such as 1.7e9 (failsafe) or 2.146e9 (writes"
            " refused).",
        ),
    ]
    multixact: Annotated[
        bool,
        click.option("--multixact", is_flag=True, help="The age is that of the oldest multixact."),
    ]
    time: Annotated[
        int | None,
        sets(
            "load.hold",
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time under load at that age (default 10 s).",
        ),
    ]
    before: Annotated[
        int,
        click.option(
            "--before",
            type=Duration(positive=True),
            default="3",
            help="Time under load before the age is raised (default 3 s).",
        ),
    ]
    recovery: Annotated[
        int,
        click.option(
            "--recovery",
            type=Duration(positive=True),
            default="120",
            help="Longest time to wait for the recovery (default 120 s).",
        ),
    ]
    settings: StartSettings


@click.command("age")
@taking_options
def command(
    load: UnplannedLoad,
    own: AgeOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Bring a server to an old transaction ID age, load it, and let it recover.

    Starts a server, loads it, raises the age of its oldest transaction ID in a second or so, and
    loads it again: vacuums to prevent wraparound, the failsafe, warnings, and refused writes from
    2,144,483,647 on. Then removes what pins the age, waits until autovacuum has lowered it, and
    checks rows, tables and indexes. Only for servers that pgdyno starts.

    \b
      pgdyno age --to 1.7e9 mixed -c 8 -T 60
      pgdyno age --to 2.146e9 mixed --pg-bindir /usr/lib/postgresql/15/bin
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.scenario.age import age_of, check_kept, live_at_age, prepared_spec, request_of

    asked = ask("age", load, own, output=output, progress=progress)
    ids, age = age_of(asked.spec, own.to, multixact=own.multixact)
    spec = prepared_spec(asked.spec, ids)
    request = request_of(spec, (ids, age), before_ms=own.before, recovery_ms=own.recovery)
    named = ["--to", str(age), *(["--multixact"] if ids == "mxid" else [])]
    words = [*named, *given_options("before", "recovery")]
    measure(asked, spec, partial(live_at_age, request=request), words).finish(check_kept)
