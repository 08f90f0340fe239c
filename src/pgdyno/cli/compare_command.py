"""Measure the effect of one change in interleaved pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.files import run_path
from pgdyno.cli.given_options import given_options
from pgdyno.cli.options import (
    all_of,
    load_options,
    matters_option,
    output_options,
    parse_assignments,
    settings_option,
)
from pgdyno.cli.output import print_result
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.profile_options import PROFILE_OPTIONS, profile_of
from pgdyno.cli.run_options import URL_OPTIONS
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration
from pgdyno.cli.versions_option import versions_of
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.profile.reading import Profile
    from pgdyno.results.compare import CompareResult
    from pgdyno.spec import Change, Spec

HELP_ORDER = 30


@click.command("compare")
@load_options
@all_of(URL_OPTIONS)
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
    help="Spec key of the changed side, such as load.protocol=simple; of both sides for a pooler,"
    " such as pooler.default_pool_size=5,20.",
)
@all_of(PROFILE_OPTIONS)
@click.option(
    "--against",
    metavar="N|DIR",
    help="The changed side is another PostgreSQL: a major version, or a directory of binaries.",
)
@click.option(
    "--budget",
    type=Duration(positive=True),
    default="90",
    help="Time to spend (default 90 s; with --against 4 min).",
)
@click.option("--slice", "slice_ms", type=Duration(positive=True), help="Duration of each slice.")
@click.option("--pairs", type=click.IntRange(6, 1000), help="Maximum number of pairs.")
@click.option(
    "--apply",
    "may_apply",
    is_flag=True,
    help="Allow changes to the settings of your server; they are restored at the end.",
)
@matters_option
@output_options
def command(**given: Any) -> None:
    """Measure the effect of one change in interleaved pairs.

    --set, --pool-max, --vary, --profile or --against define the change. The result is a ratio with
    a 95 % interval. A profile is checked first: every line that the server refuses, that
    contradicts another one or that has no effect is named. With --ablate, its lines are taken back
    in groups. Two versions of PostgreSQL are compared as shipped, and with the defaults that differ
    made equal; each has loaded its own tables.

    \b
      pgdyno compare tpcb-like -c 8 --set synchronous_commit=off
      pgdyno compare tpcb-like -c 16 --pool-max 4
      pgdyno compare tpcb-like -c 16 --vary load.protocol=simple
      pgdyno compare tpcb-like -c 16 -M extended --vary pooler.kind=none,pgbouncer
      pgdyno compare tpcb-like -c 16 --profile mine.conf --ablate
      pgdyno compare tpcb-like --pg-version 17 --against 18
    """
    from pgdyno.results.trust import check_trust
    from pgdyno.trial.compare import check_times

    check_times(given["slice_ms"], given["budget"])
    profile = profile_of(given)
    positional = parse_positional(given["what"])
    settings = parse_assignments(given["settings"], "--set")
    # --pool-max applies to the changed side only.
    base = {**given, "settings": given["base_settings"], "pool_max": None}
    spec, spec_text = build_spec(positional, base)
    against = versions_of(given, spec)
    path = run_path(given["output"], spec.name)
    if against is not None:
        result = _of_versions(given, spec, spec_text, path, against)
    elif profile is not None:
        result = _of_profile(given, spec, spec_text, path, profile)
    else:
        result = _of_change(given, spec, spec_text, path, settings)
    print_result(given["output_format"], path, result.to_json())
    check_trust(result)


def _of_change(
    given: Mapping[str, Any], spec: Spec, spec_text: str, path: Path, settings: dict[str, str]
) -> CompareResult:
    """Return the effect of --set, --pool-max and --vary."""
    from pgdyno.cli.session import session_for
    from pgdyno.trial.compare import check_budget, compare

    spec, keys = _sides(spec, given["vary"])
    change = _change(spec, given, settings, keys)
    if given_options("budget"):
        check_budget(spec, change, budget_ms=given["budget"], slice_ms=given["slice_ms"])
    own = given_options("settings", "pool_max", "vary", "budget", "slice_ms", "pairs", "may_apply")
    with session_for("compare", given, spec, spec_text, path, own, settings) as session:
        return compare(
            session,
            change,
            budget_s=given["budget"] / 1000,
            slice_s=given["slice_ms"] / 1000 if given["slice_ms"] else None,
            pairs_max=given["pairs"],
        )


def _of_profile(
    given: Mapping[str, Any], spec: Spec, spec_text: str, path: Path, profile: Profile
) -> CompareResult:
    """Return the effect of --profile, with --ablate also of its lines."""
    from pgdyno.cli.session import session_for
    from pgdyno.profile.checking import ProfileCheck
    from pgdyno.profile.procedure import (
        check_ablation_budget,
        compare_profile,
        default_budget_s,
    )

    budget_s = given["budget"] / 1000
    if given["ablate"]:
        if given_options("budget"):
            check_ablation_budget(given["budget"])
        else:
            budget_s = default_budget_s(profile)
    check = ProfileCheck(profile, spec, given["allow"])
    own = given_options(*("profile", "ablate", "allow", "budget", "slice_ms", "pairs", "may_apply"))
    with session_for(
        "compare", given, spec, spec_text, path, own, profile.settings, ready=check.ready
    ) as session:
        return compare_profile(
            session,
            check,
            budget_s=budget_s,
            slice_s=given["slice_ms"] / 1000 if given["slice_ms"] else None,
            pairs_max=given["pairs"],
            ablate=given["ablate"],
        )


def _of_versions(
    given: Mapping[str, Any], spec: Spec, spec_text: str, path: Path, against: str
) -> CompareResult:
    """Return the effect of --against."""
    from pgdyno.cli.session import session_for
    from pgdyno.conduct import check_turns
    from pgdyno.versions.pairing import pair_of
    from pgdyno.versions.procedure import (
        DEFAULT_BUDGET_S,
        check_versions_budget,
        compare_versions,
        with_server,
    )

    budget_s = DEFAULT_BUDGET_S
    if given_options("budget"):
        check_versions_budget(given["budget"])
        budget_s = given["budget"] / 1000
    check_turns(spec)
    pair = pair_of(spec, against)
    own = given_options("against", "budget", "slice_ms", "pairs")
    with session_for("compare", given, with_server(spec, pair[0]), spec_text, path, own) as session:
        return compare_versions(
            session,
            pair,
            budget_s=budget_s,
            slice_s=given["slice_ms"] / 1000 if given["slice_ms"] else None,
            pairs_max=given["pairs"],
        )


def _sides(spec: Spec, vary: tuple[str, ...]) -> tuple[Spec, dict[str, str]]:
    """Return the spec of the baseline, and the keys of the changed side."""
    from pgdyno.dimension import change_of, sides_of, spec_with

    baseline, changed = sides_of(parse_assignments(vary, "--vary"))
    return spec_with(spec, change_of(keys=baseline), where="--vary"), changed


def _change(
    spec: Spec, given: Mapping[str, Any], settings: dict[str, str], keys: dict[str, str]
) -> Change:
    """Return the change of --set, --pool-max and --vary. Raises UsageError if it is empty."""
    from pgdyno.dimension import change_of
    from pgdyno.spec import Change

    pools = {group.name: given["pool_max"] for group in spec.clients if given["pool_max"]}
    change = Change(pool_max=pools).over(change_of(settings=settings, keys=keys, spec=spec))
    if not change:
        raise UsageError(
            "nothing to compare: no change is given",
            code="nothing-to-compare",
            hint="--set NAME=VALUE, --pool-max N, --vary KEY=VALUE, --profile FILE or --against N",
        )
    return change
