"""Load a server once and diagnose it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import set_options, sets, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings
from pgdyno.cli.output import print_result, print_statements, write_page
from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.cli.spec_options import Given
    from pgdyno.conduct import Session

HELP_ORDER = 20
LOG_PREFIX = "pgbench_log"


def _print_script(_ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    "Print a built-in script and exit."
    if name is None:
        return
    from pgdyno.cli.scripts import DESCRIBED, builtin_named
    from pgdyno.workload.builtin import builtin_texts

    found = builtin_named(name, f"--show-script={name}")
    click.echo(f"-- {found}: {DESCRIBED[found]}\n{builtin_texts()[found].strip()}")
    raise click.exceptions.Exit(0)


class LogOptions(Struct, frozen=True, kw_only=True):
    """pgbench's log of transactions."""

    log: Annotated[
        bool,
        click.option(
            "-l",
            "--log",
            is_flag=True,
            help=f"Write a log in pgbench's format: {LOG_PREFIX}.PID[.THREAD].",
        ),
    ]
    log_prefix: Annotated[
        str | None,
        sets(
            "load.log.prefix",
            "--log-prefix",
            metavar="PREFIX",
            help=f"Prefix of the log file, with -l (default {LOG_PREFIX}).",
        ),
    ]
    sampling_rate: Annotated[
        float | None,
        sets(
            "load.log.sampling_rate",
            "--sampling-rate",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="SHARE",
            help="Share of the transactions to log, with -l: 0.01 for 1 in 100.",
        ),
    ]
    aggregate_interval: Annotated[
        int | None,
        sets(
            "load.log.aggregate_interval",
            "--aggregate-interval",
            type=Duration(positive=True),
            help="Log one line per interval instead of one per transaction, with -l.",
        ),
    ]
    failures_detailed: Annotated[
        bool,
        sets(
            "load.log.failures_detailed",
            "--failures-detailed",
            is_flag=True,
            help="Log serialization failures and deadlocks separately, with -l.",
        ),
    ]


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options that only a single run has."""

    transactions: Annotated[
        int | None,
        sets(
            "load.transactions",
            "-t",
            "--transactions",
            type=click.IntRange(1),
            metavar="N",
            help="Number of transactions per client, instead of -T.",
        ),
    ]
    time: Annotated[
        int | None,
        sets(
            "load.hold",
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Duration of the measurement, after the ramp.",
        ),
    ]
    report_per_command: Annotated[
        bool,
        click.option(
            "-r",
            "--report-per-command",
            "--report-latencies",
            "report_per_command",
            is_flag=True,
            help="Print the latency and failures of each statement.",
        ),
    ]
    statements: Annotated[
        bool,
        sets(
            "server.statements",
            "--statements",
            is_flag=True,
            help="Also report the server's own counts of statements, by pg_stat_statements: time,"
            " WAL, pages, I/O, JIT.",
        ),
    ]
    logging: LogOptions
    verbose_errors: Annotated[
        bool,
        sets(
            "load.verbose_errors",
            "--verbose-errors",
            is_flag=True,
            help="Print every error during the load, not only the first of each kind.",
        ),
    ]
    progress_timestamp: Annotated[
        bool,
        click.option(
            "--progress-timestamp", is_flag=True, help="Print progress with Unix timestamps."
        ),
    ]
    show_script: Annotated[
        str | None,
        click.option(
            "--show-script",
            metavar="NAME",
            is_eager=True,
            callback=_print_script,
            help="Print a built-in script and exit.",
        ),
    ]
    settings: StartSettings


@click.command("run")
@taking_options
def command(
    load: LoadOptions,
    run: RunOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Load a server once and diagnose it.

    WORKLOAD is tpcb-like (the default), simple-update, select-only, mixed, business,
    entity-resolution, ingest, tpcc-like or tpcc-functions. Without DATABASE, CONNINFO, -h or -d,
    pgdyno starts a PostgreSQL server for the run and removes it at the end. With -i, tables are
    created, and a load follows only if -t or -T is given.

    PLAN.jmx or SITE.har in place of a workload loads a web server as a JMeter test plan or the
    recording of a browser says; pgdyno import writes it as a spec with scripts.

    \b
      pgdyno run -i -s 10 shop        same as pgbench -i -s 10 shop
      pgdyno run -c 8 -T 60 shop      same as pgbench -c 8 -T 60 shop
    """
    from pgdyno.cli.session import ask, initialise_only, measure
    from pgdyno.investigate.run import run_spec
    from pgdyno.results.trust import check_trust

    adapt = partial(_adapt, run, load)
    asked = ask("run", load, run, output=output, progress=progress, adapt=adapt)
    if load.init.initialize and run.transactions is None and run.time is None:
        if output.output_format != "text" or output.report:
            option = "--report" if output.report else "--format"
            raise UsageError(
                f"{option} requires a load: -i alone only creates tables",
                code="contradiction",
                hint="add -t or -T to run a load after the initialization",
            )
        initialise_only(asked.spec, load, progress)
        return
    measured = measure(
        asked,
        asked.spec,
        lambda session: run_spec(session, _governor(session)),
        timestamps=run.progress_timestamp,
    )
    path, result = measured.path, measured.result
    print_result(output.output_format, path, result.to_json())
    if run.report_per_command and output.output_format == "text":
        print_statements(path)
    write_page(path, measured.page)
    check_trust(result)


def _adapt(run: RunOptions, load: LoadOptions, given: Given) -> None:
    """Give -t a limit in time and -l a prefix. Raises UsageError for options that contradict each
    other."""
    counted = run.transactions is not None
    if load.scripts.max_tries == 0 and counted and load.arrival.latency_limit is None:
        raise UsageError(
            "--max-tries 0 with -t: a transaction that always fails would be retried forever",
            code="contradiction",
            hint="limit the retries with -L, or the run with -T",
        )
    if counted and run.time is not None:
        raise UsageError("-t and -T exclude each other", code="contradiction")
    if counted:
        given["load.hold"] = "1d"
    if run.logging.log:
        given.setdefault("load.log.prefix", LOG_PREFIX)
        return
    given.pop("load.log.failures_detailed", None)
    for each, _ in set_options(run.logging):
        if each.key in given:
            raise UsageError(
                f"{each.option} requires a transaction log",
                code="contradiction",
                hint="add -l",
            )


def _governor(session: Session) -> AbstractContextManager[None] | None:
    """Return the governor of a session's load; None if its spec has none."""
    if session.spec.govern is None:
        return None
    from pgdyno.govern.in_run import governing

    return governing(session)
