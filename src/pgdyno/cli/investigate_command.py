"""Find the bottleneck, prove it, and price the remedies."""

from __future__ import annotations

from typing import Annotated, Literal

import click
from msgspec import Struct

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import (
    Matters,
    OutputWithPage,
    ProgressOptions,
    StartSettings,
    given_options,
)
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration

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


@click.command("investigate")
@taking_options
def command(
    load: LoadOptions,
    own: InvestigateOptions,
    settings: StartSettings,
    matters: Matters,
    output: OutputWithPage,
    progress: ProgressOptions,
) -> None:
    """Find the bottleneck, prove it, and price the remedies.

    Loads the server, diagnoses the bottleneck, tries the most promising remedy in interleaved
    pairs, keeps it if it helps, and repeats until nothing helps or the budget is used up.
    """
    from pgdyno.cli.session import session_for
    from pgdyno.investigate.loop import investigate
    from pgdyno.price.remedies import price_remedies
    from pgdyno.results.trust import check_trust
    from pgdyno.search.knee import closed_group

    positional = parse_positional(load.what)
    spec, spec_text = build_spec(
        positional, load, settings=settings, matters=matters, quiet=progress.quiet
    )
    budget_ms = own.budget or spec.investigate.budget_ms
    group = closed_group(spec) if own.knee else None
    path = run_path(output.output, spec.name)
    page = page_path(output.report, path)
    words = given_options("budget", "allow", "may_apply", "drill", "knee")
    with session_for(
        "investigate", load, progress, spec, spec_text, path, words, may_apply=own.may_apply
    ) as session:
        result = investigate(
            session,
            budget_s=budget_ms / 1000,
            allow=own.allow or spec.investigate.allow,
            may_apply=own.may_apply,
            knee_group=group,
        )
        result = price_remedies(session, result, drill=own.drill)
    print_result(output.output_format, path, result.to_json())
    write_page(path, page)
    if output.output_format == "text":
        ours = spec.server.kind == "embedded"
        yours = "      yours: pgdyno investigate postgresql://host/db" if ours else ""
        click.echo(f"report  {page}{yours}")
        if not own.knee:
            click.echo("capacity  not measured: --knee looks for the knee with what was kept")
    check_trust(result)
