"""Options of pgbench that pgdyno does not have, and what to use instead."""

from __future__ import annotations

_RUN_FILE = (
    "every run is recorded, a row per second: --format csv prints it, pgdyno report draws it"
)

_INSTEAD = {
    ("-l", "--log", "--log-prefix"): (
        f"{_RUN_FILE}; --acks DIR keeps a record of every single transaction"
    ),
    ("--aggregate-interval", "--progress-timestamp"): _RUN_FILE,
    ("--sampling-rate",): "leave it out: every transaction is in the histograms of the run file",
    ("-r", "--report-per-command", "--report-latencies"): (
        "leave it out: every run has the service time of each statement, with percentiles"
    ),
    ("--failures-detailed",): "leave it out: failures are always told apart, by SQLSTATE",
    ("--verbose-errors", "--debug"): (
        "the first message of each kind of error is kept: pgdyno report shows them all"
    ),
    ("--continue-on-error",): (
        "leave it out: a failed transaction is counted by its SQLSTATE, and a lost"
        " connection is made again"
    ),
    ("--show-script",): "the built-in scripts are pgbench's: pgbench --show-script=tpcb-like",
}


def instead_of(option: str) -> str | None:
    """What to use instead of pgbench's ``option``; ``None`` if it is not one of pgbench's."""
    name = option.partition("=")[0]
    return next((hint for names, hint in _INSTEAD.items() if name in names), None)
