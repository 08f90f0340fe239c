"""Find the best size of a connection pool."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import output_options, pool_search_options, settings_option
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration, Limits

HELP_ORDER = 36
# The search varies the pool itself.
_NOT_IN_SPEC = ("pool_max", "ramp")


@click.command("pool")
@pool_search_options
@click.option(
    "--slo",
    type=Limits(),
    metavar="LIMITS",
    help="Only sizes that meet these limits of the response time, the wait for a connection"
    " included, such as 'p99<20ms'.",
)
@click.option("--group", metavar="NAME", help="Client group to vary, if the spec has several.")
@click.option(
    "--instances",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Instances of the application that share the connections (default 1). With --pooler each"
    " has a pool of its own in front of it, whose size is looked for too.",
)
@click.option(
    "--budget",
    type=Duration(positive=True),
    default="150",
    help="Time to spend under load (default 150 s).",
)
@settings_option("--set", "--setting", text="Setting to start the server with.")
@click.option("--report", metavar="FILE", help="HTML report to write.")
@output_options
def command(**given: Any) -> None:
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
    from pgdyno.cli.session import session_for
    from pgdyno.pool.preparing import check_budget, layers_of, prepared_spec
    from pgdyno.pool.procedure import Request, find_pool
    from pgdyno.results.trust import check_trust
    from pgdyno.search.slo import parse_limits

    check_budget(given["budget"])
    positional = parse_positional(given["what"])
    choose = given["clients"] is None and positional.spec_path is None
    spec, spec_text = build_spec(positional, {**given, **dict.fromkeys(_NOT_IN_SPEC)})
    spec, group = prepared_spec(
        spec, group=given["group"], choose_clients=choose, instances=given["instances"]
    )
    check_budget(given["budget"], searches=layers_of(spec, group))
    path = run_path(given["output"], spec.name)
    report_path = page_path(given["report"], path) if given["report"] else None
    own = given_options("clients", "pool_max", "slo", "group", "instances", "budget")
    with session_for("pool", given, spec, spec_text, path, own) as session:
        request = Request(
            group=group,
            limits=parse_limits(given["slo"]) if given["slo"] else (),
            size_max=given["pool_max"],
            budget_s=given["budget"] / 1000,
            instances=given["instances"] or 1,
            choose_clients=choose,
        )
        result = find_pool(session, request)
    print_result(given["output_format"], path, result.to_json())
    write_page(path, report_path)
    check_trust(result)
