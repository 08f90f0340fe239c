"""Find how many clients may connect at once."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import output_options, settings_option, storm_options
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration

HELP_ORDER = 37
# Options of other commands that a storm has no use for: it decides itself who is there when.
_NOT_OPTIONS = ("rate", "process", "when_busy", "queue_max", "latency_limit", "ramp", "clients")


@click.command("storm")
@storm_options
@click.option(
    "--shape",
    type=click.Choice(["herd", "sawtooth", "leak", "retry"]),
    default="herd",
    help="herd: all connect at once; sawtooth: most of them come and go; leak: idle connections"
    " grow; retry: all lose their sessions and try again at once (default herd).",
)
@click.option(
    "--within",
    type=Duration(positive=True),
    default="10",
    help="Time within which a storm must be over to be survived (default 10 s).",
)
@click.option("--group", metavar="NAME", help="Client group that arrives, if there are several.")
@click.option(
    "--budget",
    type=Duration(positive=True),
    default="120",
    help="Time to spend on storms (default 120 s).",
)
@settings_option("--set", "--setting", text="Setting to start the server with.")
@click.option("--report", metavar="FILE", help="HTML report to write.")
@output_options
def command(**given: Any) -> None:
    """Find how many clients may connect at once.

    Makes storms of connections, twice as many clients each time, until one is not over in time, and
    bisects. Says how long the largest takes until all clients are served, which errors there are,
    and what fewer connections at a time or a queue of the clients would change, measured in turns.

    \b
      pgdyno storm -c 1000
      pgdyno storm --pooler pgbouncer --shape retry
      pgdyno storm select-only postgresql://pooler/db --control postgresql://host/db -c 5000
    """
    from pgdyno.cli.session import session_for
    from pgdyno.results.trust import check_trust
    from pgdyno.storm.preparing import check_budget, clients_most, prepared_spec
    from pgdyno.storm.procedure import Request, find_storm

    check_budget(given["budget"])
    asked = {**given, **dict.fromkeys(_NOT_OPTIONS)}
    spec, spec_text = build_spec(parse_positional(given["what"]), asked)
    most = clients_most(spec, given["clients"])
    spec, group = prepared_spec(
        spec,
        shape=given["shape"],
        group=given["group"],
        clients_max=most,
        connecting_max=given["connecting_max"],
    )
    path = run_path(given["output"], spec.name)
    report_path = page_path(given["report"], path) if given["report"] else None
    own = given_options("clients", "shape", "within", "group", "budget")
    with session_for("storm", given, spec, spec_text, path, own) as session:
        request = Request(
            given["shape"], group, most, given["within"] / 1000, given["budget"] / 1000
        )
        result = find_storm(session, request)
    print_result(given["output_format"], path, result.to_json())
    write_page(path, report_path)
    check_trust(result)
