"""Slow down and pause loaders before a server runs out of transaction IDs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.options import connection_options
from pgdyno.cli.types import Count, Duration, ListenAddress
from pgdyno.errors import Interrupted, ThresholdError, UsageError

if TYPE_CHECKING:
    from pgdyno.govern.daemon import Request
    from pgdyno.results.govern import GovernDecision

HELP_ORDER = 15
_REMINDER_S = 60.0
_USUAL_ENDS = (130, 143)
"""SIGINT and SIGTERM."""


@click.command("govern")
@click.argument("what", nargs=-1, metavar="[DATABASE|CONNINFO]")
@connection_options
@click.option(
    "--low",
    type=Count(),
    default="1.2e9",
    help="Age from which loaders slow down, and below which a pause ends (default 1.2e9).",
)
@click.option(
    "--high", type=Count(), default="1.5e9", help="Age at which loaders pause (default 1.5e9)."
)
@click.option(
    "--interval",
    type=Duration(positive=True),
    default="1",
    help="Time between two looks at the server (default 1 s, at most 1 min).",
)
@click.option(
    "--when-unknown",
    type=click.Choice(["pause", "go"]),
    default="pause",
    help="Decision while the database cannot be asked (default pause).",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    default="127.0.0.1:9188",
    help="Address of the HTTP server for loaders (default 127.0.0.1:9188; port 0: a free one).",
)
@click.option(
    "--sql",
    metavar="SCHEMA",
    help="Also publish the decision in SQL: in the view pgdyno_governor of this schema.",
)
@click.option(
    "--vacuum", is_flag=True, help="VACUUM (FREEZE) the oldest tables while loaders pause."
)
@click.option(
    "--once",
    is_flag=True,
    help="Print one decision, and the ages of databases and tables unless with -q; exit with status"
    " 3 if loaders should pause.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the decisions on stdout, one line each (default text).",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no messages, only warnings and errors.")
def command(**given: Any) -> None:
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
    from pgdyno.cli.printed import notes
    from pgdyno.conduct import stop_signals
    from pgdyno.govern.daemon import decide_once, govern

    request = _request(given)
    if given["once"]:
        _print_once(given, decide_once(request))
        return
    try:
        with stop_signals():
            govern(request, _Teller(given["output_format"]).tell, notes(quiet=given["quiet"]))
    except Interrupted as stopped:
        if stopped.exit_status not in _USUAL_ENDS:
            raise


def _request(given: dict[str, Any]) -> Request:
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.govern.daemon import Request
    from pgdyno.govern.marks import Marks

    if given["sql"] == "":
        raise UsageError("--sql is empty", code="empty-option", hint="for example --sql public")
    return Request(
        conninfo_without_load(given, "govern"),
        given["control"],
        Marks(given["low"], given["high"]),
        given["interval"] / 1000,
        given["when_unknown"],
        given["listen"],
        given["sql"],
        given["vacuum"],
    )


def _print_once(given: dict[str, Any], decision: GovernDecision) -> None:
    from pgdyno.cli.printed import print_json
    from pgdyno.govern.words import lines_of_ages

    if given["output_format"] == "json":
        print_json(decision.to_json())
    else:
        _echo(f"{decision.decision}: {decision.why}")
        for line in () if given["quiet"] else lines_of_ages(decision):
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
    from pgdyno.cli.printed import printable

    # One line for each decision: the name of a database may have line ends.
    click.echo(printable(text).replace("\n", "\\n"), err=err)
