"""Measure the effect of one change in interleaved pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from pgdyno.cli.compare_options import CompareOptions, profile_of, sql_of, versions_of
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import OutputOptions, ProgressOptions, given_options, parse_assignments
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.cli.session import Asked, MeasuredResult
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
    from pgdyno.cli.session import ask
    from pgdyno.compare.change import check_times

    check_times(own.slice_ms, own.budget)
    profile = profile_of(own.profiles)
    # --pool-max applies to the changed side only.
    asked = ask("compare", load, own, output=output, progress=progress, varied="clients.pool.max")
    against = versions_of(own.against, asked.spec)
    if against is not None:
        measured = _of_versions(asked, own, against)
    elif profile is not None:
        measured = _of_profile(asked, own, profile)
    else:
        measured = _of_change(asked, own)
    measured.finish()


def _of_change(asked: Asked, own: CompareOptions) -> MeasuredResult[CompareResult]:
    """Return the effect of --set, --pool-max, --vary and --sql."""
    from pgdyno.cli.session import measure
    from pgdyno.compare.change import compare

    settings = parse_assignments(own.settings, "--set")
    spec, keys = _sides(asked.spec, own.vary)
    pool_max = asked.load.connections.pool_max
    change = _change(spec, pool_max, settings, keys, sql_of(own.sql, own.undo_sql))
    _check_budget(own, spec, change)
    of_change = ("settings", "pool_max", "vary", "sql", "undo_sql")

    def ready(target: Target) -> None:
        _check_sql(target, change)
        _check_budget(own, spec, change, target)

    return measure(
        asked,
        spec,
        partial(
            compare,
            change=change,
            budget_s=own.budget / 1000,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
            budget_given=bool(given_options("budget")),
        ),
        given_options(*of_change, "budget", "slice_ms", "pairs", "may_apply"),
        settings=settings,
        may_apply=own.may_apply,
        ready=ready,
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


def _of_profile(
    asked: Asked, own: CompareOptions, profile: Profile
) -> MeasuredResult[CompareResult]:
    """Return the effect of --profile, with --ablate also of its lines."""
    from pgdyno.cli.session import measure
    from pgdyno.compare.profile import check_ablation_budget, compare_profile, default_budget_s
    from pgdyno.compare.profile_check import ProfileCheck

    ablate = own.profiles.ablate
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

    return measure(
        asked,
        asked.spec,
        partial(
            compare_profile,
            check=check,
            budget_s=budget_s,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
            ablate=ablate,
        ),
        given_options("profile", "ablate", "allow", "budget", "slice_ms", "pairs", "may_apply"),
        settings=profile.settings,
        may_apply=own.may_apply,
        ready=ready,
    )


def _of_versions(asked: Asked, own: CompareOptions, against: str) -> MeasuredResult[CompareResult]:
    """Return the effect of --against."""
    from pgdyno.cli.session import measure
    from pgdyno.compare.versions import (
        DEFAULT_BUDGET_S,
        check_versions_budget,
        compare_versions,
        pair_of,
        with_server,
    )
    from pgdyno.conduct import check_turns

    spec, budget_s = asked.spec, DEFAULT_BUDGET_S
    if given_options("budget"):
        check_versions_budget(own.budget)
        budget_s = own.budget / 1000
    check_turns(spec)
    pair = pair_of(spec, against)
    return measure(
        asked,
        with_server(spec, pair[0]),
        partial(
            compare_versions,
            pair=pair,
            budget_s=budget_s,
            slice_s=own.slice_s,
            pairs_max=own.pairs,
        ),
        given_options("against", "budget", "slice_ms", "pairs"),
        may_apply=own.may_apply,
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
