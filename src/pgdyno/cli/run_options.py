"""Options of ``pgdyno run`` beyond those of its load: time, pgbench's log, additional output."""

from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.types import Duration

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
        click.option(
            "--log-prefix",
            metavar="PREFIX",
            help=f"Prefix of the log file, with -l (default {LOG_PREFIX}).",
        ),
    ]
    sampling_rate: Annotated[
        float | None,
        click.option(
            "--sampling-rate",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="SHARE",
            help="Share of the transactions to log, with -l: 0.01 for 1 in 100.",
        ),
    ]
    aggregate_interval: Annotated[
        int | None,
        click.option(
            "--aggregate-interval",
            type=Duration(positive=True),
            help="Log one line per interval instead of one per transaction, with -l.",
        ),
    ]
    failures_detailed: Annotated[
        bool,
        click.option(
            "--failures-detailed",
            is_flag=True,
            help="Log serialization failures and deadlocks separately, with -l.",
        ),
    ]


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options that only a single run has."""

    transactions: Annotated[
        int | None,
        click.option(
            "-t",
            "--transactions",
            type=click.IntRange(1),
            metavar="N",
            help="Number of transactions per client, instead of -T.",
        ),
    ]
    time: Annotated[
        int | None,
        click.option(
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
        click.option(
            "--statements",
            is_flag=True,
            help="Also report the server's own counts of statements, by pg_stat_statements: time,"
            " WAL, pages, I/O, JIT.",
        ),
    ]
    logging: LogOptions
    verbose_errors: Annotated[
        bool,
        click.option(
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
