"""Find what ails a running server, read-only and without load."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.completing import files
from pgdyno.cli.options import connection_options
from pgdyno.cli.types import Duration
from pgdyno.errors import ThresholdError, UsageError

if TYPE_CHECKING:
    from pgdyno.check.checking import Request
    from pgdyno.results.check import CheckResult

HELP_ORDER = 10
_SECONDS_MIN, _SECONDS_MAX = 2, 25
_BY_SIGINT = 130
_FAIL_ON = ("will-fail", "limit", "costs", "minor", "never")


@click.command("check")
@click.argument("what", nargs=-1, metavar="[DATABASE|CONNINFO]")
@connection_options
@click.option(
    "-T",
    "--time",
    type=Duration(positive=True),
    default="20",
    help="How long to watch the load, 2 to 25 s (default 20 s).",
)
@click.option(
    "--cores",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Cores of the server's machine, where pgdyno does not run there.",
)
@click.option(
    "--fail-on",
    type=click.Choice(_FAIL_ON),
    default="will-fail",
    help="Least severity of a finding with which the exit status is 3 (default will-fail).",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=files,
    help="Run file to keep (default: none is kept).",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the result on stdout (default text).",
)
@click.option(
    "--write-probe",
    is_flag=True,
    help="Also commit rows for some seconds, into a table that is dropped afterwards: how long a"
    " commit takes, and what of it is network, server and flush.",
)
@click.option(
    "--watch",
    type=Duration(positive=True),
    is_flag=False,
    flag_value="5",
    help="Repeat it for this long each time (default 5 s) until Ctrl-C, in one view.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, only warnings and errors.")
def command(**given: Any) -> None:
    """Find what ails a running server, read-only and without load.

    Looks at settings, catalogs and statistics, and watches the load of others for some seconds.
    Nothing is written on the server unless --write-probe asks for it, and no statement takes more
    than 2 s. Without DATABASE, CONNINFO, -h or -d, the server is that of the environment, as for
    psql.

    \b
      pgdyno check postgresql://db.example.com/shop
      pgdyno check -h db.example.com shop --format json --fail-on limit
    """
    from pgdyno.check.checking import check
    from pgdyno.cli.screen import watcher_for

    request = _request(given)
    if given["watch"] is not None:
        _watch(given, request)
        return
    with watcher_for(quiet=given["quiet"], every_s=1.0) as watcher:
        result = check(request, watcher)
    _print(given["output_format"], result)
    _fail_on(given["fail_on"], result)


def _request(given: dict[str, Any]) -> Request:
    from pgdyno.check import Where
    from pgdyno.check.checking import Request
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.cli.files import run_path

    seconds = given["time"] / 1000
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        raise UsageError(
            f"-T {seconds:g}: the load is watched for {_SECONDS_MIN} to {_SECONDS_MAX} s",
            code="out-of-range",
            hint="pgdyno run loads a server for as long as you like",
        )
    conninfo = conninfo_without_load(given, "check")
    path = run_path(given["output"], "check") if given["output"] else None
    where = Where(conninfo, given["control"], given["cores"])
    return Request(where, seconds, path, given["write_probe"])


def _watch(given: dict[str, Any], request: Request) -> None:
    """Repeat the check until the user stops it, which is its usual end."""
    from pgdyno.check.watching import Watch, watch
    from pgdyno.cli.screen import watcher_for
    from pgdyno.cli.streams import is_read
    from pgdyno.conduct import stop_signals
    from pgdyno.errors import Interrupted
    from pgdyno.report import show_watch, stdout_console

    for option, contradicts in (
        ("--format json", given["output_format"] == "json"),
        ("-o", given["output"] is not None),
        ("--write-probe", given["write_probe"]),
    ):
        if contradicts:
            raise UsageError(
                f"{option} cannot be used with --watch, which has no end",
                code="contradiction",
                hint="leave out --watch",
            )
    seconds = given["watch"] / 1000
    if seconds < _SECONDS_MIN:
        raise UsageError(
            f"--watch {seconds:g}: at least {_SECONDS_MIN} s are needed to see something",
            code="out-of-range",
        )
    asked = Watch(request.where, seconds)
    with watcher_for(quiet=True, every_s=1.0) as watcher:
        try:
            with stop_signals():
                seen = takewhile(lambda _: is_read(sys.stdout), watch(asked, watcher))
                show_watch(seen, stdout_console())
        except Interrupted as stopped:
            if stopped.exit_status != _BY_SIGINT:
                raise


def _print(output_format: str, result: CheckResult) -> None:
    if output_format == "json":
        from pgdyno.cli.printed import print_json
        from pgdyno.record.plain import plain

        print_json(plain(result.to_json()))
        return
    from pgdyno.report import check_summary, stdout_console

    check_summary(result, stdout_console())


def _fail_on(least: str, result: CheckResult) -> None:
    """Raise ThresholdError if there is a finding of this severity, or a worse one."""
    from pgdyno.check import findings_at_least

    severe = [] if least == "never" else findings_at_least(result, least.replace("-", " "))
    if severe:
        named = ", ".join(dict.fromkeys(each.id for each in severe))
        raise ThresholdError(
            f"{len(severe)} of severity {least} or worse: {named}",
            code="check-failed",
            hint="--fail-on sets the severity",
        )
