"""Slow down and pause loaders before a server runs out of transaction IDs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database, NoMessages
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.cli.types import Count, Duration, ListenAddress
from pgdyno.errors import Interrupted, ThresholdError, UsageError

if TYPE_CHECKING:
    from pgdyno.govern.daemon import GovernRequest
    from pgdyno.results.govern import GovernDecision

HELP_ORDER = 15
_REMINDER_S = 60.0
_USUAL_ENDS = (130, 143)
"""SIGINT and SIGTERM."""


class GovernOptions(Struct, frozen=True, kw_only=True):
    """Marks at which loaders slow down and pause, and the ways in which they are told."""

    low: Annotated[
        int,
        click.option(
            "--low",
            type=Count(),
            default="1.2e9",
            help="Age from which loaders slow down, and below which a pause ends (default 1.2e9).",
        ),
    ]
    high: Annotated[
        int,
        click.option(
            "--high",
            type=Count(),
            default="1.5e9",
            help="Age at which loaders pause (default 1.5e9).",
        ),
    ]
    interval: Annotated[
        int,
        click.option(
            "--interval",
            type=Duration(positive=True),
            default="1",
            help="Time between two looks at the server (default 1 s, at most 1 min).",
        ),
    ]
    when_unknown: Annotated[
        Literal["pause", "go"],
        click.option(
            "--when-unknown",
            type=click.Choice(["pause", "go"]),
            default="pause",
            help="Decision while the database cannot be asked (default pause).",
        ),
    ]
    listen: Annotated[
        Any,
        click.option(
            "--listen",
            type=ListenAddress(),
            metavar="HOST:PORT",
            default="127.0.0.1:9188",
            help="Address of the HTTP server for loaders (default 127.0.0.1:9188; port 0: a free"
            " one).",
        ),
    ]
    sql: Annotated[
        str | None,
        click.option(
            "--sql",
            metavar="SCHEMA",
            help="Also publish the decision in SQL: in the view pgdyno_governor of this schema.",
        ),
    ]
    vacuum: Annotated[
        bool,
        click.option(
            "--vacuum", is_flag=True, help="VACUUM (FREEZE) the oldest tables while loaders pause."
        ),
    ]
    once: Annotated[
        bool,
        click.option(
            "--once",
            is_flag=True,
            help="Print one decision, and the ages of databases and tables unless with -q; exit"
            " with status 3 if loaders should pause.",
        ),
    ]
    output_format: Annotated[
        str,
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["text", "json"]),
            default="text",
            help="Format of the decisions on stdout, one line each (default text).",
        ),
    ]
    quiet: NoMessages


@click.command("govern")
@taking_options
def command(what: Database, connect: ConnectOptions, options: GovernOptions) -> None:
    """Slow down and pause loaders before a server runs out of transaction IDs.

    Watches the ages of transaction IDs and multixacts of all databases. Between the low and the
    high mark loaders slow down; at the high mark they pause, until the age is back below the low
    mark. One daemon serves all loaders of a server: they ask it by HTTP, in SQL (--sql), or with
    pgdyno.govern.Governor in Python. It ends with Ctrl-C or SIGTERM.

    \b
      pgdyno govern postgresql://db.example.com/shop
      pgdyno govern -h db.example.com shop --vacuum --sql public
      curl -sf 'http://127.0.0.1:9188/wait?worked_s=5'
    """
    from pgdyno.cli.output import notes
    from pgdyno.conduct import stop_signals
    from pgdyno.govern.daemon import decide_once, govern

    request, note = _request(what, connect, options), notes(quiet=options.quiet)
    if options.once:
        _print_once(decide_once(request, note), options.output_format, quiet=options.quiet)
        return
    try:
        with stop_signals():
            govern(request, _Teller(options.output_format).tell, note)
    except Interrupted as stopped:
        if stopped.exit_status not in _USUAL_ENDS:
            raise


def _request(
    what: tuple[str, ...], connect: ConnectOptions, options: GovernOptions
) -> GovernRequest:
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.govern.daemon import GovernRequest
    from pgdyno.govern.deciding import AgeMarks

    if options.sql == "":
        raise UsageError("--sql is empty", code="empty-option", hint="for example --sql public")
    return GovernRequest(
        conninfo_without_load(what, connect, "govern"),
        connect.control,
        AgeMarks(options.low, options.high),
        options.interval / 1000,
        options.when_unknown,
        options.listen,
        options.sql,
        options.vacuum,
    )


def _print_once(decision: GovernDecision, output_format: str, *, quiet: bool) -> None:
    from pgdyno.cli.output import print_json
    from pgdyno.govern.deciding import lines_of_ages

    if output_format == "json":
        print_json(decision.to_json())
    else:
        _echo(f"{decision.decision}: {decision.why}")
        for line in () if quiet else lines_of_ages(decision):
            _echo(line)
        for warning in decision.warnings:
            _echo(f"warning: {warning}")
        for unknown in decision.not_known:
            _echo(f"not known: {unknown}")
    if decision.decision == "pause":
        raise ThresholdError(
            f"loaders should pause: {decision.why}", code="govern-pause", hint=None
        )


class _Teller:
    """Prints a line when the decision changes, and once a minute."""

    def __init__(self, output_format: str) -> None:
        self._json = output_format == "json"
        self._last: tuple[str, bool] | None = None
        self._told_at_s = 0.0
        self._warned: set[str] = set()

    def tell(self, decision: GovernDecision) -> None:
        """Print ``decision`` if it says something else than the last one."""
        says = (decision.decision, decision.known)
        now_s = time.monotonic()
        if says == self._last and now_s - self._told_at_s < _REMINDER_S:
            return
        self._last, self._told_at_s = says, now_s
        if self._json:
            click.echo(json.dumps(decision.to_json()))
        else:
            at = time.strftime("%Y-%m-%d %H:%M:%S")
            _echo(f"{at}  {decision.decision:<5}  {decision.why}")
        for warning in {*decision.warnings, *decision.not_known} - self._warned:
            self._warned.add(warning)
            _echo(f"warning: {warning}", err=True)


def _echo(text: str, *, err: bool = False) -> None:
    from pgdyno.cli.output import printable

    # One line for each decision: the name of a database may have line ends.
    click.echo(printable(text), err=err)
