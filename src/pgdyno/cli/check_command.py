"""Check a running server for known problems, read-only and without load."""

from __future__ import annotations

import sys
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database, Quiet, Report, TextOrJson
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.cli.types import Duration, complete_files
from pgdyno.errors import PgdynoError, ThresholdError, UsageError

if TYPE_CHECKING:
    from pgdyno.check.checking import CheckRequest
    from pgdyno.results.check import CheckResult

HELP_ORDER = 10
_SECONDS_MIN, _SECONDS_MAX = 2, 25
_BY_SIGINT = 130
_FAIL_ON = ("will-fail", "limit", "costs", "minor", "never")


class CheckOptions(Struct, frozen=True, kw_only=True):
    """Extent and length of the looks, and their output."""

    time: Annotated[
        int,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            default="20",
            help="How long to watch the load, 2 to 25 s (default 20 s).",
        ),
    ]
    cores: Annotated[
        float | None,
        click.option(
            "--cores",
            type=click.FloatRange(0, min_open=True),
            metavar="N",
            help="Cores of the server's machine, where pgdyno does not run there.",
        ),
    ]
    fail_on: Annotated[
        str,
        click.option(
            "--fail-on",
            type=click.Choice(_FAIL_ON),
            default="will-fail",
            help="Least severity of a finding with which the exit status is 3 (default will-fail).",
        ),
    ]
    output: Annotated[
        str | None,
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            shell_complete=complete_files,
            help="Run file to keep (default: none is kept).",
        ),
    ]
    output_format: TextOrJson
    report: Report
    write_probe: Annotated[
        bool,
        click.option(
            "--write-probe",
            is_flag=True,
            help="Also commit rows for some seconds, into a table that is dropped afterwards: how"
            " long a commit takes, and what of it is network, server and flush.",
        ),
    ]
    watch: Annotated[
        int | None,
        click.option(
            "--watch",
            type=Duration(positive=True),
            is_flag=False,
            flag_value="5",
            help="Repeat it for this long each time (default 5 s) until Ctrl-C, in one view.",
        ),
    ]
    quiet: Quiet


@click.command("check")
@taking_options
def command(what: Database, connect: ConnectOptions, options: CheckOptions) -> None:
    """Check a running server for known problems, read-only and without load.

    Looks at settings, catalogs and statistics, and watches the load of others for some seconds.
    Nothing is written on the server unless --write-probe asks for it, and no statement takes more
    than 2 s. Without DATABASE, CONNINFO, -h or -d, the server is that of the environment, as for
    psql.

    \b
      pgdyno check postgresql://db.example.com/shop
      pgdyno check -h db.example.com shop --format json --fail-on limit
    """
    from pgdyno.check.checking import check
    from pgdyno.cli.files import wanted_page
    from pgdyno.cli.screen import watcher_for

    request = _request(what, connect, options)
    if options.watch is not None:
        _watch(options, request)
        return
    page = wanted_page(options.report)
    with watcher_for(quiet=options.quiet, every_s=1.0) as watcher:
        unwritten: list[PgdynoError] = []
        result = check(request, watcher, partial(_write_page, page, request, unwritten))
    _print(options.output_format, result)
    if unwritten:
        raise unwritten[0]
    _fail_on(options.fail_on, result)


def _write_page(
    page: Path | None, request: CheckRequest, unwritten: list[PgdynoError], path: Path
) -> None:
    """Write the page; a problem with that is kept until the result is printed, as there may be no
    run file that has it."""
    from pgdyno.cli.output import write_page
    from pgdyno.record import RunFile
    from pgdyno.report import write_html

    try:
        if request.path is not None:
            write_page(path, page)
        elif page is not None:
            write_html(RunFile(path), page)
    except PgdynoError as problem:
        unwritten.append(problem)


def _request(what: tuple[str, ...], connect: ConnectOptions, options: CheckOptions) -> CheckRequest:
    from pgdyno.check import Where
    from pgdyno.check.checking import CheckRequest
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.cli.files import run_path

    seconds = options.time / 1000
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        raise UsageError(
            f"-T {seconds:g}: the load is watched for {_SECONDS_MIN} to {_SECONDS_MAX} s",
            code="out-of-range",
            hint="pgdyno run loads a server for as long as you like",
        )
    conninfo = conninfo_without_load(what, connect, "check")
    path = run_path(options.output, "check") if options.output else None
    where = Where(conninfo, connect.control, options.cores)
    return CheckRequest(where, seconds, path, options.write_probe)


def _watch(options: CheckOptions, request: CheckRequest) -> None:
    """Repeat the check until the user stops it, which is its usual end."""
    from pgdyno.check.watching import Watch, watch
    from pgdyno.cli.process import is_read
    from pgdyno.cli.screen import watcher_for
    from pgdyno.conduct import stop_signals
    from pgdyno.errors import Interrupted
    from pgdyno.report import stdout_console
    from pgdyno.report.terminal.check import show_watch

    for option, contradicts in (
        ("--format json", options.output_format == "json"),
        ("-o", options.output is not None),
        ("--report", options.report is not None),
        ("--write-probe", request.write_probe),
    ):
        if contradicts:
            raise UsageError(
                f"{option} cannot be used with --watch, which has no end",
                code="contradiction",
                hint="leave out --watch",
            )
    seconds = (options.watch or 0) / 1000
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
        from pgdyno.cli.output import print_json
        from pgdyno.record.plain import plain

        print_json(plain(result.to_json()))
        return
    from pgdyno.report import result_summary, stdout_console

    result_summary("check", result, stdout_console())


def _fail_on(least: str, result: CheckResult) -> None:
    """Raise ThresholdError if there is a finding of this severity, or a worse one."""
    from pgdyno.results.check import at_least

    severe = [] if least == "never" else at_least(result.findings, least.replace("-", " "))
    if severe:
        named = ", ".join(dict.fromkeys(each.id for each in severe))
        raise ThresholdError(
            f"{len(severe)} of severity {least} or worse: {named}",
            code="check-failed",
            hint="--fail-on sets the severity",
        )
