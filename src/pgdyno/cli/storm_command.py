"""Find how many clients may connect at once."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import (
    OutputOptions,
    ProgressOptions,
    StartSettings,
    given_options,
)
from pgdyno.cli.types import Duration

HELP_ORDER = 37
_CLIENTS_MAX = click.option(
    "-c",
    "--clients-max",
    "clients",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Clients of the largest storm to try (default 1,000, through a pooler 10,000).",
)


class StormOptions(Struct, frozen=True, kw_only=True):
    """Which storms are made, and for how long."""

    shape: Annotated[
        str,
        click.option(
            "--shape",
            type=click.Choice(["herd", "sawtooth", "leak", "retry"]),
            default="herd",
            help="herd: all connect at once; sawtooth: most of them come and go; leak: idle"
            " connections grow; retry: all lose their sessions and try again at once (default"
            " herd).",
        ),
    ]
    within: Annotated[
        int,
        click.option(
            "--within",
            type=Duration(positive=True),
            default="10",
            help="Time within which a storm must be over to be survived (default 10 s).",
        ),
    ]
    group: Annotated[
        str | None,
        click.option(
            "--group", metavar="NAME", help="Client group that arrives, if there are several."
        ),
    ]
    budget: Annotated[
        int,
        click.option(
            "--budget",
            type=Duration(positive=True),
            default="120",
            help="Time to spend on storms (default 120 s).",
        ),
    ]
    settings: StartSettings


@click.command("storm")
@taking_options
def command(
    # A storm decides itself who is there when.
    load: Annotated[
        LoadOptions,
        instead(clients=_CLIENTS_MAX, ramp=None, plans=None, arrival=None, urls=None),
    ],
    own: StormOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Find how many clients may connect at once.

    Makes storms of connections, twice as many clients each time, until one is not over in time, and
    bisects. Says how long the largest takes until all clients are served, which errors there are,
    and what fewer connections at a time or a queue of the clients would change, measured in turns.

    \b
      pgdyno storm -c 1000
      pgdyno storm --pooler pgbouncer --shape retry
      pgdyno storm select-only postgresql://pooler/db --control postgresql://host/db -c 5000
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.search.storm import (
        StormRequest,
        check_budget,
        clients_most,
        find_storm,
        prepared_spec,
    )

    check_budget(own.budget)
    asked = ask("storm", load, own, output=output, progress=progress, varied="clients.count")
    most = clients_most(asked.spec, load.clients)
    spec, arriving = prepared_spec(
        asked.spec,
        shape=own.shape,
        group=own.group,
        clients_max=most,
        connecting_max=load.connections.connecting_max,
    )
    request = StormRequest(own.shape, arriving, most, own.within / 1000, own.budget / 1000)
    words = given_options("clients", "shape", "within", "group", "budget")
    measure(asked, spec, partial(find_storm, request=request), words).finish()
