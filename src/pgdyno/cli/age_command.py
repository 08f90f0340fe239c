"""Bring a server to an old transaction ID age, load it, and let it recover."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import load_options, output_options, settings_option
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_without_database
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration

HELP_ORDER = 62


@click.command("age")
@load_options
@click.option(
    "--to",
    metavar="AGE",
    help="Age of the oldest transaction ID, such as 1.7e9 (failsafe) or 2.146e9 (writes refused).",
)
@click.option("--multixact", is_flag=True, help="The age is that of the oldest multixact.")
@click.option(
    "-T",
    "--time",
    type=Duration(positive=True),
    help="Time under load at that age (default 10 s).",
)
@click.option(
    "--before",
    type=Duration(positive=True),
    default="3",
    help="Time under load before the age is raised (default 3 s).",
)
@click.option(
    "--recovery",
    type=Duration(positive=True),
    default="120",
    help="Longest time to wait for the recovery (default 120 s).",
)
@settings_option("--set", "--setting", text="Setting to start the server with.")
@click.option("--report", metavar="FILE", help="HTML report to write.")
@output_options
def command(**given: Any) -> None:
    """Bring a server to an old transaction ID age, load it, and let it recover.

    Starts a server, loads it, raises the age of its oldest transaction ID in a second or so, and
    loads it again: vacuums to prevent wraparound, the failsafe, warnings, and refused writes from
    2,144,483,647 on. Then removes what pins the age, waits until autovacuum has lowered it, and
    checks rows, tables and indexes. Only for servers that pgdyno starts.

    \b
      pgdyno age --to 1.7e9 mixed -c 8 -T 60
      pgdyno age --to 2.146e9 mixed --pg-bindir /usr/lib/postgresql/15/bin
    """
    from pgdyno.age.preparing import age_of, prepared_spec, request_of
    from pgdyno.age.procedure import check_kept, live_at_age
    from pgdyno.cli.session import session_for
    from pgdyno.results.trust import check_trust

    spec, spec_text = build_spec(parse_without_database(given["what"], "age"), given)
    ids, age = age_of(spec, given["to"], multixact=given["multixact"])
    spec = prepared_spec(spec, ids)
    request = request_of(spec, (ids, age), before_ms=given["before"], recovery_ms=given["recovery"])
    path = run_path(given["output"], spec.name)
    report_path = page_path(given["report"], path) if given["report"] else None
    named = ["--to", str(age), *(["--multixact"] if ids == "mxid" else [])]
    own = [*named, *given_options("before", "recovery")]
    with session_for("age", given, spec, spec_text, path, own) as session:
        result = live_at_age(session, request)
    print_result(given["output_format"], path, result.to_json())
    write_page(path, report_path)
    check_kept(result)
    check_trust(result)
