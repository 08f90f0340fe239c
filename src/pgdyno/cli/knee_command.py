"""Find how much a server can take."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import Group, OutputOptions, ProgressOptions, StartSettings, given_options
from pgdyno.cli.types import Duration, LatencyLimits

HELP_ORDER = 35
_CLIENTS_MAX = click.option(
    "-c",
    "--clients-max",
    "clients",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Most clients to try (default 16 for each core, at least 64, and no more than connections"
    " are free).",
)


class KneeOptions(Struct, frozen=True, kw_only=True):
    """Limits of the search, and its time."""

    slo: Annotated[
        str | None,
        click.option(
            "--slo",
            type=LatencyLimits(),
            metavar="LIMITS",
            help="Look for the highest rate that meets these limits of the response time, such as"
            " 'p99<20ms' or 'p50<=2ms,p99.9<100ms' (default: for the number of clients).",
        ),
    ]
    group: Group
    budget: Annotated[
        int,
        click.option(
            "--budget",
            type=Duration(positive=True),
            default="150",
            help="Time to spend under load (default 150 s).",
        ),
    ]
    settings: StartSettings


@click.command("knee")
@taking_options
def command(
    # The search varies clients and rate itself.
    load: Annotated[LoadOptions, instead(clients=_CLIENTS_MAX, ramp=None, arrival=None)],
    own: KneeOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Find how much a server can take.

    Looks for the knee: the fewest clients with at least 95 % of the highest throughput. With --slo,
    looks for the highest rate at which the response times meet the limits and no queue grows. Both
    by bisection, with repeats in random order, and a longer measurement at the end.

    \b
      pgdyno knee select-only
      pgdyno knee tpcb-like --slo 'p99<20ms'
      pgdyno knee my-spec.toml postgresql://host/db -c 200
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.search.knee import KneeRequest, find_knee, prepared_spec
    from pgdyno.search.measuring import check_budget
    from pgdyno.search.slo import parse_limits

    check_budget(own.budget)
    limits = parse_limits(own.slo) if own.slo else ()
    asked = ask("knee", load, own, output=output, progress=progress, varied="clients.count")
    spec, varied = prepared_spec(asked.spec, group=own.group, clients=load.clients, limits=limits)
    request = KneeRequest(varied, limits, load.clients, own.budget / 1000)
    words = given_options("clients", "slo", "group", "budget")
    measure(asked, spec, partial(find_knee, request=request), words).finish()
