"""Measure the effect of one change in interleaved pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from pgdyno.cli.compare_options import CompareOptions, profile_of, sql_of, versions_of
from pgdyno.cli.files import run_path, wanted_page
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import (
    Matters,
    OutputOptions,
    ProgressOptions,
    given_options,
    parse_assignments,
)
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.compare.profile_file import Profile
    from pgdyno.conduct import Target
    from pgdyno.results.compare import CompareResult
    from pgdyno.spec import Change, Spec

HELP_ORDER = 30


@click.command("compare")
@taking_options
def command(
    load: LoadOptions,
    own: CompareOptions,
    matters: Matters,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Measure the effect of one change in interleaved pairs.

    --set, --pool-max, --vary, --sql, --profile or --against define the change. The result is a
    ratio with a 95 % interval. A profile is checked first: every line that the server refuses, that
    contradicts another one or that has no effect is named. With --ablate, its lines are taken back
    in groups. Two versions of PostgreSQL are compared as shipped, and with the defaults that differ
    made equal; each has loaded its own tables.

    --sql and --undo-sql compare with any change by SQL; your own server is changed only with
    --apply, and is without the change at the end, also after kill -9.

    \b
      pgdyno compare tpcb-like -c 8 --set synchronous_commit=off
      pgdyno compare tpcb-like -c 16 --pool-max 4
      pgdyno compare tpcb-like -c 16 --vary load.protocol=simple
      pgdyno compare tpcb-like -c 16 -M extended --vary pooler.kind=none,pgbouncer
      pgdyno compare shop -f orders.sql --apply --sql 'create index i on orders (customer)' \\
          --undo-sql 'drop index i'
      pgdyno compare tpcb-like -c 16 --profile mine.conf --ablate
      pgdyno compare tpcb-like --pg-version 17 --against 18
    """
    from pgdyno.compare.change import check_times
    from pgdyno.results.trust import check_trust

    check_times(own.slice_ms, own.budget)
    profile = profile_of(own.profiles)
    positional = parse_positional(load.what)
    # --pool-max applies to the changed side only.
    baseline = replace(load, connections=replace(load.connections, pool_max=None))
    spec, spec_text = build_spec(
        positional,
        baseline,
        settings=own.base_settings,
        matters=matters,
        quiet=progress.quiet,
    )
    spec = _timed(spec, positional.spec_path)
    asked = _Asked(load, own, progress, spec, spec_text, run_path(output.output, spec.name))
    page = wanted_page(output.report)
    against = versions_of(own.against, spec)
    if against is not None:
        result = _of_versions(asked, against)
    elif profile is not None:
        result = _of_profile(asked, profile)
    else:
        result = _of_change(asked)
    print_result(output.output_format, asked.path, result.to_json())
    write_page(asked.path, page)
    check_trust(result)


def _timed(spec: Spec, source: Path | None) -> Spec:
    """Return the spec of a run file without its number of transactions: slices have a time."""
    from pgdyno.conduct.repeating import is_spec_of_run

    if source is None or spec.load.transactions is None or not is_spec_of_run(source):
        return spec
    return spec.model_copy(update={"load": spec.load.model_copy(update={"transactions": None})})


class _Asked(Struct, frozen=True):
    """The command line, and the spec and the run file that were made of it."""

    load: LoadOptions
    own: CompareOptions
    progress: ProgressOptions
    spec: Spec
    spec_text: str
    path: Path


def _of_change(asked: _Asked) -> CompareResult:
    """Return the effect of --set, --pool-max, --vary and --sql."""
    from pgdyno.cli.session import session_for
    from pgdyno.compare.change import compare

    own = asked.own
    settings = parse_assignments(own.settings, "--set")
    spec, keys = _sides(asked.spec, own.vary)
    pool_max = asked.load.connections.pool_max
    change = _change(spec, pool_max, settings, keys, sql_of(own.sql, own.undo_sql))
    _check_budget(own, spec, change)
    of_change = ("settings", "pool_max", "vary", "sql", "undo_sql")
    words = given_options(*of_change, "budget", "slice_ms", "pairs", "may_apply")

    def ready(target: Target) -> None:
        _check_sql(target, change)
        _check_budget(own, spec, change, target)

    with session_for(
        "compare",
        asked.load,
        asked.progress,
        spec,
        asked.spec_text,
        asked.path,
        words,
        settings=settings,
        may_apply=own.may_apply,
        ready=ready,
    ) as session:
        return compare(
            session,
            change,
            budget_s=own.budget / 1000,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
            budget_given=bool(given_options("budget")),
        )


def _check_sql(target: Target, change: Change) -> None:
    """Raise UsageError for SQL that the server does not parse, or that needs --apply."""
    if change.sql:
        sql = target.settings.sql
        sql.require_apply(change.sql["make"])
        sql.check((*change.sql["make"], *change.sql["undo"]))


def _check_budget(
    own: CompareOptions, spec: Spec, change: Change, target: Target | None = None
) -> None:
    """Raise UsageError for a given --budget in which there is no verdict; with the server also by
    what only its settings tell."""
    from pgdyno.compare.change import check_budget

    if given_options("budget"):
        in_force = None if target is None else target.facts["settings"]
        check_budget(spec, change, budget_ms=own.budget, slice_ms=own.slice_ms, in_force=in_force)


def _of_profile(asked: _Asked, profile: Profile) -> CompareResult:
    """Return the effect of --profile, with --ablate also of its lines."""
    from pgdyno.cli.session import session_for
    from pgdyno.compare.profile import (
        check_ablation_budget,
        compare_profile,
        default_budget_s,
    )
    from pgdyno.compare.profile_check import ProfileCheck

    own, ablate = asked.own, asked.own.profiles.ablate
    budget_s = own.budget / 1000
    if ablate:
        if given_options("budget"):
            check_ablation_budget(own.budget)
        else:
            budget_s = default_budget_s(profile)
    check = ProfileCheck(profile, asked.spec, own.profiles.allow)

    def ready(target: Target) -> None:
        check.ready(target)
        if not ablate:
            _check_budget(own, asked.spec, check.checked.change, target)

    words = given_options(
        *("profile", "ablate", "allow", "budget", "slice_ms", "pairs", "may_apply")
    )
    with session_for(
        "compare",
        asked.load,
        asked.progress,
        asked.spec,
        asked.spec_text,
        asked.path,
        words,
        settings=profile.settings,
        may_apply=own.may_apply,
        ready=ready,
    ) as session:
        return compare_profile(
            session,
            check,
            budget_s=budget_s,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
            ablate=ablate,
        )


def _of_versions(asked: _Asked, against: str) -> CompareResult:
    """Return the effect of --against."""
    from pgdyno.cli.session import session_for
    from pgdyno.compare.versions import (
        DEFAULT_BUDGET_S,
        check_versions_budget,
        compare_versions,
        pair_of,
        with_server,
    )
    from pgdyno.conduct import check_turns

    own, spec = asked.own, asked.spec
    budget_s = DEFAULT_BUDGET_S
    if given_options("budget"):
        check_versions_budget(own.budget)
        budget_s = own.budget / 1000
    check_turns(spec)
    pair = pair_of(spec, against)
    with session_for(
        "compare",
        asked.load,
        asked.progress,
        with_server(spec, pair[0]),
        asked.spec_text,
        asked.path,
        given_options("against", "budget", "slice_ms", "pairs"),
        may_apply=own.may_apply,
    ) as session:
        return compare_versions(
            session,
            pair,
            budget_s=budget_s,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
        )


def _sides(spec: Spec, vary: tuple[str, ...]) -> tuple[Spec, dict[str, str]]:
    """Return the spec of the baseline, and the keys of the changed side."""
    from pgdyno.dimension import change_of, sides_of, spec_with

    baseline, changed = sides_of(parse_assignments(vary, "--vary"), spec)
    return spec_with(spec, change_of(keys=baseline), where="--vary"), changed


def _change(
    spec: Spec,
    pool_max: int | None,
    settings: dict[str, str],
    keys: dict[str, str],
    sql: dict[str, tuple[str, ...]],
) -> Change:
    """Return the change of --set, --pool-max, --vary and --sql; UsageError if it is empty."""
    from pgdyno.dimension import change_of
    from pgdyno.spec import Change

    pools = {group.name: pool_max for group in spec.clients} if pool_max else {}
    change = Change(pool_max=pools, sql=sql).over(
        change_of(settings=settings, keys=keys, spec=spec)
    )
    if not change:
        raise UsageError(
            "nothing to compare: no change is given",
            code="nothing-to-compare",
            hint="--set NAME=VALUE, --pool-max N, --vary KEY=VALUE, --sql SQL with --undo-sql,"
            " --profile FILE or --against N",
        )
    return change
