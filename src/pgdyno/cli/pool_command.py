"""Find the best size of a connection pool."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import Group, OutputOptions, ProgressOptions, StartSettings, given_options
from pgdyno.cli.types import Duration, LatencyLimits

HELP_ORDER = 36
_POOL_MAX = click.option(
    "--pool-max",
    type=click.IntRange(1),
    metavar="N",
    help="Largest pool to try (default 16 connections for each core, at least 64, no more than"
    " there are clients and than connections are free).",
)


class PoolOptions(Struct, frozen=True, kw_only=True):
    """Limits of the search, and its time."""

    slo: Annotated[
        str | None,
        click.option(
            "--slo",
            type=LatencyLimits(),
            metavar="LIMITS",
            help="Only sizes that meet these limits of the response time, the wait for a"
            " connection included, such as 'p99<20ms'.",
        ),
    ]
    group: Group
    instances: Annotated[
        int | None,
        click.option(
            "--instances",
            type=click.IntRange(1, 100_000),
            metavar="N",
            help="Instances of the application that share the connections (default 1). With"
            " --pooler each has a pool of its own in front of it, whose size is looked for too.",
        ),
    ]
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


@click.command("pool")
@taking_options
def command(
    load: Annotated[LoadOptions, instead(pool_max=_POOL_MAX, ramp=None, urls=None)],
    own: PoolOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Find the best size of a connection pool.

    Many clients share a pool, and its size is varied: the answer is the smallest with at least 95 %
    of the highest throughput, with --slo among the sizes that meet the limits. Says what
    connections beyond it cost, and prints the size as settings of pool libraries. With --pooler and
    --instances there are two sizes: of the pooler's pool and of the application's in front of it.

    \b
      pgdyno pool tpcb-like -c 100
      pgdyno pool tpcb-like --slo 'p99<50ms' --instances 4
      pgdyno pool tpcb-like -c 128 --pooler pgbouncer --instances 4
      pgdyno pool my-spec.toml postgresql://host/db --budget 5min
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.search.measuring import check_budget
    from pgdyno.search.pool import PoolRequest, find_pool, layers_of, prepared_spec
    from pgdyno.search.slo import parse_limits

    check_budget(own.budget)
    asked = ask("pool", load, own, output=output, progress=progress, varied="clients.pool.max")
    choose = load.clients is None and asked.positional.spec_path is None
    spec, varied = prepared_spec(
        asked.spec, group=own.group, choose_clients=choose, instances=own.instances
    )
    check_budget(own.budget, searches=layers_of(spec, varied))
    request = PoolRequest(
        group=varied,
        limits=parse_limits(own.slo) if own.slo else (),
        size_max=load.connections.pool_max,
        budget_s=own.budget / 1000,
        instances=own.instances or 1,
        choose_clients=choose,
    )
    words = given_options("clients", "pool_max", "slo", "group", "instances", "budget")
    measure(asked, spec, partial(find_pool, request=request), words).finish()
