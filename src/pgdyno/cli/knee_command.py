"""Find how much a server can take."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec.structs import replace

from pgdyno.cli.files import run_path, wanted_page
from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import (
    Group,
    OutputOptions,
    ProgressOptions,
    StartSettings,
    given_options,
)
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration, Limits

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


@click.command("knee")
@taking_options
def command(
    # The search varies clients and rate itself.
    load: Annotated[LoadOptions, instead(clients=_CLIENTS_MAX, ramp=None, arrival=None)],
    slo: Annotated[
        str | None,
        click.option(
            "--slo",
            type=Limits(),
            metavar="LIMITS",
            help="Look for the highest rate that meets these limits of the response time, such as"
            " 'p99<20ms' or 'p50<=2ms,p99.9<100ms' (default: for the number of clients).",
        ),
    ],
    group: Group,
    budget: Annotated[
        int,
        click.option(
            "--budget",
            type=Duration(positive=True),
            default="150",
            help="Time to spend under load (default 150 s).",
        ),
    ],
    settings: StartSettings,
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
    from pgdyno.cli.session import session_for
    from pgdyno.results.trust import check_trust
    from pgdyno.search.knee import Request, find_knee, prepared_spec
    from pgdyno.search.measuring import check_budget
    from pgdyno.search.slo import parse_limits

    check_budget(budget)
    limits = parse_limits(slo) if slo else ()
    positional, clients_max = parse_positional(load.what), load.clients
    load = replace(load, clients=None)
    spec, spec_text = build_spec(positional, load, settings=settings, quiet=progress.quiet)
    spec, varied = prepared_spec(spec, group=group, clients=clients_max, limits=limits)
    path = run_path(output.output, spec.name)
    page = wanted_page(output.report)
    words = given_options("clients", "slo", "group", "budget")
    with session_for("knee", load, progress, spec, spec_text, path, words) as session:
        request = Request(varied, limits, clients_max, budget / 1000)
        result = find_knee(session, request)
    print_result(output.output_format, path, result.to_json())
    write_page(path, page)
    check_trust(result)
