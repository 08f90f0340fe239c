"""Options of ``pgdyno run``: the web server to load, which other commands take too; duration,
pgbench's log, and additional output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError

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


URL_OPTIONS = [
    click.option(
        "--url",
        "urls",
        multiple=True,
        metavar="URL",
        help="Send requests to a web server instead of SQL to PostgreSQL: this URL, one of several,"
        " or with -f the server that the script's requests go to.",
    ),
    click.option(
        "--url-list",
        metavar="FILE",
        help="The same, with a file of URLs, one a line.",
    ),
    click.option(
        "--front-metrics",
        metavar="URL",
        help="Read the web server's own figures, of its pool and its threads, from this endpoint in"
        " Prometheus' text format.",
    ),
]
"""Options of commands that can load a web server."""

RUN_OPTIONS = [
    *URL_OPTIONS,
    click.option(
        "-t",
        "--transactions",
        type=click.IntRange(1),
        metavar="N",
        help="Number of transactions per client, instead of -T.",
    ),
    click.option(
        "-T",
        "--time",
        type=Duration(positive=True),
        help="Duration of the measurement, after the ramp.",
    ),
    click.option(
        "-r",
        "--report-per-command",
        "--report-latencies",
        "report_per_command",
        is_flag=True,
        help="Print the latency and failures of each statement.",
    ),
    click.option(
        "--statements",
        is_flag=True,
        help="Also report the server's own counts of statements, by pg_stat_statements: time, WAL,"
        " pages, I/O, JIT.",
    ),
    click.option(
        "-l",
        "--log",
        is_flag=True,
        help=f"Write a log in pgbench's format: {LOG_PREFIX}.PID[.THREAD].",
    ),
    click.option(
        "--log-prefix",
        metavar="PREFIX",
        help=f"Prefix of the log file, with -l (default {LOG_PREFIX}).",
    ),
    click.option(
        "--sampling-rate",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="SHARE",
        help="Share of the transactions to log, with -l: 0.01 for 1 in 100.",
    ),
    click.option(
        "--aggregate-interval",
        type=Duration(positive=True),
        help="Log one line per interval instead of one per transaction, with -l.",
    ),
    click.option(
        "--failures-detailed",
        is_flag=True,
        help="Log serialization failures and deadlocks separately, with -l.",
    ),
    click.option(
        "--verbose-errors",
        is_flag=True,
        help="Print every error during the load, not only the first of each kind.",
    ),
    click.option(
        "--progress-timestamp",
        is_flag=True,
        help="Print progress with Unix timestamps.",
    ),
    click.option(
        "--show-script",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_print_script,
        help="Print a built-in script and exit.",
    ),
]


def log_fields(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the spec fields of the log; ``None`` without a log. Raises :class:`UsageError`."""
    wanted = {
        "prefix": given.get("log_prefix"),
        "sampling_rate": given.get("sampling_rate"),
        "aggregate_interval": given.get("aggregate_interval"),
    }
    present = {name: value for name, value in wanted.items() if value is not None}
    if not given.get("log"):
        for name in present:
            raise UsageError(
                f"--{name.replace('_', '-') if name != 'prefix' else 'log-prefix'} requires"
                " a transaction log",
                code="contradiction",
                hint="add -l",
            )
        return None
    if "aggregate_interval" in present:
        present["aggregate_interval"] = f"{present['aggregate_interval']}ms"
    detailed = {"failures_detailed": True} if given["failures_detailed"] else {}
    return {"prefix": LOG_PREFIX, **present, **detailed}


def check_tries(given: Mapping[str, Any]) -> None:
    """Check that unlimited tries have another limit. Raises :class:`UsageError`."""
    bounded = given["latency_limit"] is not None or given.get("transactions") is None
    if given["max_tries"] == 0 and not bounded:
        raise UsageError(
            "--max-tries 0 with -t: a transaction that always fails would be retried forever",
            code="contradiction",
            hint="limit the retries with -L, or the run with -T",
        )
