"""Find the bottleneck, prove it, and price the remedies."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import (
    all_of,
    load_options,
    matters_option,
    output_options,
    settings_option,
)
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.run_options import URL_OPTIONS
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration

HELP_ORDER = 40


@click.command("investigate")
@load_options
@all_of(URL_OPTIONS)
@click.option(
    "--budget", type=Duration(positive=True), help="Time to spend under load (default 5 min)."
)
@click.option(
    "--allow",
    type=click.Choice(["D0", "D1", "D2", "D3"]),
    help="Highest durability class of remedies to keep (default D0: no loss).",
)
@click.option(
    "--apply",
    "may_apply",
    is_flag=True,
    help="Allow changes to the settings of your server during trials; they are restored at the"
    " end.",
)
@click.option(
    "--drill/--no-drill",
    default=True,
    help="Price remedies that may lose data by crashing servers started by pgdyno (default"
    " --drill; up to 75 s each, in addition to the budget).",
)
@click.option(
    "--knee/--no-knee",
    default=False,
    help="Look at the end for the knee with what was kept, as pgdyno knee does (default --no-knee;"
    " 90 s in addition to the budget).",
)
@settings_option("--set", "--setting", text="Setting to start the server with.")
@click.option(
    "--report", metavar="FILE", help="HTML report to write (default: beside the run file)."
)
@matters_option
@output_options
def command(**given: Any) -> None:
    """Find the bottleneck, prove it, and price the remedies.

    Loads the server, diagnoses the bottleneck, tries the most promising remedy in interleaved
    pairs, keeps it if it helps, and repeats until nothing helps or the budget is used up.
    """
    from pgdyno.cli.session import session_for
    from pgdyno.investigate.loop import investigate
    from pgdyno.knee.preparing import closed_group
    from pgdyno.price.remedies import price_remedies
    from pgdyno.results.trust import check_trust

    spec, spec_text = build_spec(parse_positional(given["what"]), given)
    budget_ms = given["budget"] or spec.investigate.budget_ms
    group = closed_group(spec) if given["knee"] else None
    path = run_path(given["output"], spec.name)
    report_path = page_path(given["report"], path)
    own = given_options("budget", "allow", "may_apply", "drill", "knee")
    with session_for("investigate", given, spec, spec_text, path, own) as session:
        result = investigate(
            session,
            budget_s=budget_ms / 1000,
            allow=given["allow"] or spec.investigate.allow,
            may_apply=given["may_apply"],
            knee_group=group,
        )
        result = price_remedies(session, result, drill=given["drill"])
    print_result(given["output_format"], path, result.to_json())
    write_page(path, report_path)
    if given["output_format"] == "text":
        ours = spec.server.kind == "embedded"
        yours = "      yours: pgdyno investigate postgresql://host/db" if ours else ""
        click.echo(f"report  {report_path}{yours}")
        if not given["knee"]:
            click.echo("capacity  not measured: --knee looks for the knee with what was kept")
    check_trust(result)
