"""Measure what each setting gains, and what it loses in a crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.options import load_options_of_several, output_options, settings_option
from pgdyno.cli.output import check_trust, print_result
from pgdyno.cli.positional import sort_out
from pgdyno.cli.servers import Turn, on_each, servers_of
from pgdyno.cli.types import Duration
from pgdyno.errors import ThresholdError

if TYPE_CHECKING:
    from pgdyno.price.two_servers import Priced
    from pgdyno.results.price import PriceResult

HELP_ORDER = 60
_CLIENTS = 16
_SCALE = 10
_OWN = ("own", "ladder", "cuts", "budget")
"""Options of the price list that are not keys of the spec."""


@click.command("price")
@load_options_of_several
@click.option(
    "--candidate",
    "own",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="Settings or spec keys to price together; may be repeated.",
)
@click.option(
    "--ladder",
    metavar="NAME,…",
    help="Candidates of the default list to price (default: all, or none with --candidate).",
)
@click.option(
    "--cuts", type=click.IntRange(0, 1000), help="Maximum number of cuts per drill (default 6)."
)
@click.option(
    "--budget",
    type=Duration(positive=True),
    help="Time to spend on gains and drills (default 65 s per candidate).",
)
@settings_option("--set", "--setting", text="Setting to start every server with.")
@output_options
def command(**given: Any) -> None:
    """Measure what each setting gains, and what it loses in a crash.

    Measures each candidate against the same server without it, in interleaved pairs on this
    machine's disk, then crashes servers with the candidate applied and counts what is lost.

    \b
      pgdyno price                          all candidates, on tpcb-like
      pgdyno price --ladder async-200ms,fpw-off
      pgdyno price --candidate full_page_writes=off,wal_compression=on
      pgdyno price --pg-bindir DIR --pg-bindir OTHER_DIR
    """
    from pgdyno.cli.session import session_for
    from pgdyno.drill.witnesses import check_witnesses
    from pgdyno.price.candidates import choose
    from pgdyno.price.pricing import PriceOptions, check_price, default_budget_s, price

    asked = sort_out(given["what"])
    servers = servers_of(asked, given, scale=_SCALE, clients=_CLIENTS)
    first = servers.specs[0][0]
    table = first.price
    ladder = table.ladder if given["ladder"] is None else given["ladder"].split(",")
    if given["own"]:
        candidates = choose(ladder, given["own"], first)
    else:
        own = table.candidates if given["ladder"] is None else ()
        candidates = choose(ladder, own, first, where="price.candidates")
    for spec, _ in servers.specs:
        check_price(spec, candidates)
    cuts = table.cuts if given["cuts"] is None else given["cuts"]
    if cuts:
        check_witnesses(first)
    budget_ms = given["budget"] or table.budget_ms
    options = PriceOptions(
        candidates=candidates,
        cuts=cuts,
        budget_s=budget_ms / 1000 if budget_ms else default_budget_s(candidates, cuts),
        seed=first.load.seed or 1,
    )

    def one(turn: Turn, against: Priced | None) -> Priced:
        with session_for(
            "price", given, turn.spec, turn.spec_text, turn.run_path, turn.words
        ) as session:
            return price(session, options, against=against)

    turns = servers.turns(given["output"], f"{first.name}-price", _OWN)
    priced = on_each(turns, one)
    result = priced.result.to_json()
    print_result(given["output_format"], turns[0].run_path, result, cells(priced.result))
    check_trust(result)
    _check_bounds(priced.result)


def _check_bounds(result: PriceResult) -> None:
    from pgdyno.price.pricing import broken_promises

    if titles := broken_promises(result.prices):
        raise ThresholdError(
            f"lost more than documented: {'; '.join(titles)}",
            code="worse-than-documented",
            hint=f"pgdyno report {result.run_file} shows which cuts",
        )


def cells(result: PriceResult) -> Iterator[dict[str, Any]]:
    """Yield one row per candidate and fault, for CSV."""
    from pgdyno.results.price import Gain

    for price in result.prices:
        gain = price.gain if isinstance(price.gain, Gain) else None
        lo, hi = gain.ci95 if gain else (None, None)
        columns = {
            "candidate": price.candidate,
            "durability_class": price.durability_class,
            "throughput_ratio": gain.throughput_ratio if gain else None,
            "lo": lo,
            "hi": hi,
            "latency_p99_ratio": gain.latency_p99_ratio if gain else None,
        }
        for loss in price.losses:
            figures = {name: getattr(loss, name, None) for name in _LOSS_COLUMNS}
            yield {**columns, "fault": loss.fault, "variant": loss.variant, **figures}


_LOSS_COLUMNS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("upper_bound", "corrupt", "refused", "bound_ms", "recovery_s_median", "why", "broke_off"),
)
