"""Plan autovacuum table by table from measured rates, without load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database, NoMessages
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.vacuumplan.planning import VacuumPlanRequest

HELP_ORDER = 12
_HOUR_MS = 3_600_000


class PlanOptions(Struct, frozen=True, kw_only=True):
    """Sources of the rates, and the proof of the plan."""

    time: Annotated[
        int,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            default="1min",
            help="Time to watch the counters for (default 1 min).",
        ),
    ]
    since_reset: Annotated[
        bool,
        click.option(
            "--since-reset",
            is_flag=True,
            help="Take rates since the statistics were reset, at least 2 h ago, instead of several"
            " looks.",
        ),
    ]
    every: Annotated[
        int,
        click.option(
            "--every",
            type=Duration(positive=True),
            default="2h",
            help="How often a busy table should be vacuumed (default 2 h).",
        ),
    ]
    prove: Annotated[
        int | None,
        click.option(
            "--prove",
            type=Duration(positive=True),
            is_flag=False,
            flag_value="30s",
            help="Also run a model of the tables on a server that pgdyno starts, with the present"
            " settings and with the plan, each for this long in every round (default 30 s).",
        ),
    ]
    rounds: Annotated[
        int | None,
        click.option(
            "--rounds",
            type=click.IntRange(1, 1000),
            metavar="N",
            help="Rounds of --prove (default 6).",
        ),
    ]
    output_format: Annotated[
        str,
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["sql", "json"]),
            default="sql",
            help="Format of the plan on stdout (default sql).",
        ),
    ]
    quiet: NoMessages


@click.command("vacuum-plan")
@taking_options
def command(what: Database, connect: ConnectOptions, options: PlanOptions) -> None:
    """Plan autovacuum table by table from measured rates, without load.

    Takes the rates of inserts, updates and deletes of every table, and prints thresholds, freeze
    ages, cost limits and fillfactors as SQL, each with its reason. Nothing is changed: look at the
    plan, and pass it to psql. --prove compares it with the present settings, in a shorter time, on
    a server that pgdyno starts.

    \b
      pgdyno vacuum-plan -T 10min postgresql://db.example.com/shop > plan.sql
      psql -f plan.sql postgresql://db.example.com/shop
    """
    from pgdyno.cli.output import notes, print_json
    from pgdyno.conduct import stop_signals
    from pgdyno.vacuumplan.as_sql import as_sql
    from pgdyno.vacuumplan.planning import make_plan
    from pgdyno.vacuumplan.proving import ROUNDS_DEFAULT, prove

    if options.rounds and options.prove is None:
        raise UsageError(
            "--rounds is for --prove, which is not given",
            code="contradiction",
            hint="for example --prove 30s --rounds 6",
        )
    request, note = _request(what, connect, options), notes(quiet=options.quiet)
    with stop_signals():
        made = make_plan(request, note)
        plan = made.result
        if options.prove is not None:
            rounds = options.rounds or ROUNDS_DEFAULT
            proof = prove(
                plan, made.present, seconds=options.prove / 1000, rounds=rounds, note=note
            )
            plan = plan.model_copy(update={"proof": proof})
    if options.output_format == "json":
        print_json(plan.to_json())
    else:
        click.echo(as_sql(plan), nl=False)


def _request(
    what: tuple[str, ...], connect: ConnectOptions, options: PlanOptions
) -> VacuumPlanRequest:
    from pgdyno.check import Where
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.vacuumplan.planning import VacuumPlanRequest

    where = Where(conninfo_without_load(what, connect, "vacuum-plan"), connect.control)
    every_h = options.every / _HOUR_MS
    return VacuumPlanRequest(where, options.time / 1000, options.since_reset, every_h)
