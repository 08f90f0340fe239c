"""Measure what each setting gains, and what it loses in a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.files import wanted_page
from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import Matters, OutputOptions, ProgressOptions, start_settings
from pgdyno.cli.server_options import Bindirs
from pgdyno.cli.servers import ServerRun, run_on_each, servers_of
from pgdyno.cli.types import Duration

if TYPE_CHECKING:
    from pgdyno.price.two_servers import Priced

HELP_ORDER = 60
_CLIENTS = 16
_SCALE = 10
_OWN = ("own", "ladder", "cuts", "budget")
"""Options of the price list that are not keys of the spec."""


class PriceListOptions(Struct, frozen=True, kw_only=True):
    """Candidates, and the time for them."""

    own: Annotated[
        tuple[str, ...],
        click.option(
            "--candidate",
            "own",
            multiple=True,
            metavar="NAME=VALUE,…",
            help="Settings or spec keys to price together; may be repeated.",
        ),
    ]
    ladder: Annotated[
        str | None,
        click.option(
            "--ladder",
            metavar="NAME,…",
            help="Candidates of the default list to price (default: all, or none with"
            " --candidate).",
        ),
    ]
    cuts: Annotated[
        int | None,
        click.option(
            "--cuts",
            type=click.IntRange(0, 1000),
            help="Maximum number of cuts per drill (default 6).",
        ),
    ]
    budget: Annotated[
        int | None,
        click.option(
            "--budget",
            type=Duration(positive=True),
            help="Time to spend on gains and drills (default 75 s per candidate or more).",
        ),
    ]
    settings: Annotated[tuple[str, ...], start_settings("Setting to start every server with.")]
    matters: Matters


@click.command("price")
@taking_options
def command(
    load: Annotated[LoadOptions, instead(pg_bindir=None, urls=None, plans=None)],
    pg_bindir: Bindirs,
    own: PriceListOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Measure what each setting gains, and what it loses in a crash.

    Measures each candidate against the same server without it, in interleaved pairs on this
    machine's disk, then crashes servers with the candidate applied and counts what is lost.

    \b
      pgdyno price                          all candidates, on tpcb-like
      pgdyno price --ladder async-200ms,fpw-off
      pgdyno price --candidate full_page_writes=off,wal_compression=on
      pgdyno price --pg-bindir DIR --pg-bindir OTHER_DIR
    """
    from pgdyno.cli.session import MeasuredResult, session_for
    from pgdyno.price.pricing import check_budget, check_price, check_promises, price, price_request

    servers = servers_of(
        "price", load, pg_bindir, own, scale=_SCALE, clients=_CLIENTS, quiet=progress.quiet
    )
    first = servers.specs[0][0]
    request = price_request(
        first,
        ladder=own.ladder,
        own=own.own,
        cuts=own.cuts,
        budget_ms=own.budget,
    )
    for spec, _ in servers.specs:
        check_price(spec, request.candidates, request.cuts)
    check_budget(request)

    def price_server(run: ServerRun, against: Priced | None) -> Priced:
        with session_for(
            "price", load, progress, run.spec, run.spec_text, run.run_path, run.words
        ) as session:
            return price(session, request, against=against)

    page = wanted_page(output.report)
    runs = servers.runs(output.output, f"{first.name}-price", _OWN)
    result = run_on_each(runs, price_server).result
    MeasuredResult(result, runs[0].run_path, page, output.output_format).finish()
    check_promises(result)
