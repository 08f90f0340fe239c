"""Find the bottleneck, prove it, and price the remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import (
    Matters,
    OutputWithPage,
    ProgressOptions,
    StartSettings,
    given_options,
)
from pgdyno.cli.types import Duration

if TYPE_CHECKING:
    from pgdyno.conduct import Session
    from pgdyno.results.investigate import InvestigateResult

HELP_ORDER = 40


class InvestigateOptions(Struct, frozen=True, kw_only=True):
    """Time of the investigation, and limits of what it may change and break."""

    budget: Annotated[
        int | None,
        click.option(
            "--budget",
            type=Duration(positive=True),
            help="Time to spend under load (default 5 min).",
        ),
    ]
    allow: Annotated[
        Literal["D0", "D1", "D2", "D3"] | None,
        click.option(
            "--allow",
            type=click.Choice(["D0", "D1", "D2", "D3"]),
            help="Highest durability class of remedies to keep (default D0: no loss).",
        ),
    ]
    may_apply: Annotated[
        bool,
        click.option(
            "--apply",
            "may_apply",
            is_flag=True,
            help="Allow changes to the settings of your server during trials; they are restored at"
            " the end.",
        ),
    ]
    drill: Annotated[
        bool,
        click.option(
            "--drill/--no-drill",
            default=True,
            help="Price remedies that may lose data by crashing servers started by pgdyno (default"
            " --drill; up to 75 s each, in addition to the budget).",
        ),
    ]
    knee: Annotated[
        bool,
        click.option(
            "--knee/--no-knee",
            default=False,
            help="Look at the end for the knee with what was kept, as pgdyno knee does (default"
            " --no-knee; 90 s in addition to the budget).",
        ),
    ]
    settings: StartSettings
    matters: Matters


@click.command("investigate")
@taking_options
def command(
    load: LoadOptions,
    own: InvestigateOptions,
    output: OutputWithPage,
    progress: ProgressOptions,
) -> None:
    """Find the bottleneck, prove it, and price the remedies.

    Loads the server, diagnoses the bottleneck, tries the most promising remedy in interleaved
    pairs, keeps it if it helps, and repeats until nothing helps or the budget is used up.
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.investigate.loop import investigate
    from pgdyno.price.remedies import price_remedies
    from pgdyno.results.trust import check_trust
    from pgdyno.search.knee import closed_group

    asked = ask("investigate", load, own, output=output, progress=progress)
    spec = asked.spec
    budget_ms = own.budget or spec.investigate.budget_ms
    group = closed_group(spec) if own.knee else None

    def investigated(session: Session) -> InvestigateResult:
        result = investigate(
            session,
            budget_s=budget_ms / 1000,
            allow=own.allow or spec.investigate.allow,
            may_apply=own.may_apply,
            knee_group=group,
        )
        return price_remedies(session, result, drill=own.drill)

    words = given_options("budget", "allow", "may_apply", "drill", "knee")
    measured = measure(asked, spec, investigated, words, with_page=True, may_apply=own.may_apply)
    measured.show()
    if output.output_format == "text":
        ours = spec.server.kind == "embedded"
        yours = "      yours: pgdyno investigate postgresql://host/db" if ours else ""
        click.echo(f"report  {measured.page}{yours}")
        if not own.knee:
            click.echo("capacity  not measured: --knee looks for the knee with what was kept")
    check_trust(measured.result)
