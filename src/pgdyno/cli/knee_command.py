"""Find how much a server can take."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import all_of, output_options, search_options, settings_option
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.run_options import URL_OPTIONS
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration, Limits

HELP_ORDER = 35
# Options of other commands that a search has no use for: it varies clients and rate itself.
_NOT_OPTIONS = ("rate", "process", "when_busy", "queue_max", "latency_limit", "ramp")


@click.command("knee")
@search_options
@all_of(URL_OPTIONS)
@click.option(
    "--slo",
    type=Limits(),
    metavar="LIMITS",
    help="Look for the highest rate that meets these limits of the response time, such as"
    " 'p99<20ms' or 'p50<=2ms,p99.9<100ms' (default: for the number of clients).",
)
@click.option("--group", metavar="NAME", help="Client group to vary, if the spec has several.")
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
    from pgdyno.knee.capacity import Request
    from pgdyno.knee.preparing import check_budget, prepared_spec
    from pgdyno.knee.procedure import find_knee
    from pgdyno.results.trust import check_trust
    from pgdyno.search.slo import parse_limits

    check_budget(given["budget"])
    limits = parse_limits(given["slo"]) if given["slo"] else ()
    asked = {**given, **dict.fromkeys(_NOT_OPTIONS), "clients": None}
    spec, spec_text = build_spec(parse_positional(given["what"]), asked)
    spec, group = prepared_spec(spec, group=given["group"], clients=given["clients"], limits=limits)
    path = run_path(given["output"], spec.name)
    report_path = page_path(given["report"], path) if given["report"] else None
    own = given_options("clients", "slo", "group", "budget")
    with session_for("knee", given, spec, spec_text, path, own) as session:
        request = Request(group, limits, given["clients"], given["budget"] / 1000)
        result = find_knee(session, request)
    print_result(given["output_format"], path, result.to_json())
    write_page(path, report_path)
    check_trust(result)
