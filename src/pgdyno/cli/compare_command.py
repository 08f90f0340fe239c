"""Measure the effect of one change in interleaved pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.files import run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import load_options, output_options, parse_assignments, settings_option
from pgdyno.cli.output import print_result
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Change, Spec

HELP_ORDER = 30


@click.command("compare")
@load_options
@settings_option("--set", text="Server setting of the changed side.")
@click.option(
    "--base-set",
    "base_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Server setting of both sides, for a server started by pgdyno.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=VALUE",
    help="Spec key of the changed side, such as load.protocol=simple.",
)
@click.option(
    "--budget", type=Duration(positive=True), default="90", help="Time to spend (default 90 s)."
)
@click.option("--slice", "slice_ms", type=Duration(positive=True), help="Duration of each slice.")
@click.option("--pairs", type=click.IntRange(6, 1000), help="Maximum number of pairs.")
@click.option(
    "--apply",
    "may_apply",
    is_flag=True,
    help="Allow changes to the settings of your server; they are restored at the end.",
)
@output_options
def command(**given: Any) -> None:
    """Measure the effect of one change in interleaved pairs.

    --set, --pool-max and --vary define the change. The result is a ratio with a 95 % interval.

    \b
      pgdyno compare tpcb-like -c 8 --set synchronous_commit=off
      pgdyno compare tpcb-like -c 16 --pool-max 4
      pgdyno compare tpcb-like -c 16 --vary load.protocol=simple
    """
    from pgdyno.cli.session import session_for
    from pgdyno.investigate import compare
    from pgdyno.record import RunFile
    from pgdyno.report.rows import slice_rows
    from pgdyno.results.trust import check_trust
    from pgdyno.trial.compare import check_times

    check_times(given["slice_ms"], given["budget"])
    positional = parse_positional(given["what"])
    settings = parse_assignments(given["settings"], "--set")
    # --pool-max applies to the changed side only.
    base = {**given, "settings": given["base_settings"], "pool_max": None}
    spec, spec_text = build_spec(positional, base)
    change = _change(spec, given, settings)
    path = run_path(given["output"], spec.name)
    own = given_options("settings", "pool_max", "vary", "budget", "slice_ms", "pairs", "may_apply")
    with session_for("compare", given, spec, spec_text, path, own, settings) as session:
        result = compare(
            session,
            change,
            budget_s=given["budget"] / 1000,
            slice_s=given["slice_ms"] / 1000 if given["slice_ms"] else None,
            pairs_max=given["pairs"],
        )
    print_result(given["output_format"], path, result.to_json(), slice_rows(RunFile(path)))
    check_trust(result)


def _change(spec: Spec, given: Mapping[str, Any], settings: dict[str, str]) -> Change:
    """Return the change of --set, --pool-max and --vary. Raises UsageError if it is empty."""
    from pgdyno.dimension import change_of
    from pgdyno.spec import Change

    keys = parse_assignments(given["vary"], "--vary")
    pools = {group.name: given["pool_max"] for group in spec.clients if given["pool_max"]}
    change = Change(pool_max=pools).over(change_of(settings=settings, keys=keys, spec=spec))
    if not change:
        raise UsageError(
            "nothing to compare: no change is given",
            code="nothing-to-compare",
            hint="--set NAME=VALUE, --pool-max N or --vary KEY=VALUE",
        )
    return change
