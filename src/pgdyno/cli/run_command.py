"""Load a server once and diagnose it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pgdyno.cli.files import run_path
from pgdyno.cli.options import all_of, load_options, output_options, settings_option
from pgdyno.cli.output import check_trust, print_result, print_statements
from pgdyno.cli.positional import sort_out
from pgdyno.cli.run_options import RUN_OPTIONS
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

HELP_ORDER = 20
run_options = all_of(RUN_OPTIONS)


@click.command("run")
@load_options
@run_options
@settings_option("--set", "--setting", text="Setting to start the server with.")
@output_options
def command(**given: Any) -> None:
    """Load a server once and diagnose it.

    WORKLOAD is tpcb-like (the default), simple-update, select-only or mixed. Without DATABASE,
    CONNINFO, -h or -d, pgdyno starts a PostgreSQL server for the run and removes it at the end.
    With -i, tables are created, and a load follows only if -t or -T is given.

    \b
      pgdyno run -i -s 10 shop        same as pgbench -i -s 10 shop
      pgdyno run -c 8 -T 60 shop      same as pgbench -c 8 -T 60 shop
    """
    from pgdyno.cli.session import only_initialise, session_for
    from pgdyno.investigate import observe

    spec, spec_text = build_spec(sort_out(given["what"]), given)
    if given["initialize"] and given["transactions"] is None and given["time"] is None:
        if given["output_format"] != "text":
            raise UsageError(
                "--format requires a load: -i alone only creates tables",
                code="contradiction",
                hint="add -t or -T to run a load after the initialization",
            )
        only_initialise(spec, given)
        return
    path = run_path(given["output"], spec.name)
    with session_for("run", given, spec, spec_text, path) as session:
        result = observe(session)
    print_result(given["output_format"], path, result.to_json(), _intervals(path))
    if given["report_per_command"] and given["output_format"] == "text":
        print_statements(path)
    check_trust(result.to_json())


def _intervals(path: Path) -> Iterator[dict[str, Any]]:
    """One row per second, for CSV."""
    from pgdyno.record import RunFile

    run = RunFile(path)
    latency = run.latency_series("response", (50, 95, 99), points_max=1_000_000)
    by_time = dict(
        zip(latency["at_ms"], zip(latency["p50"], latency["p99"], strict=True), strict=True)
    )
    for interval in run.intervals():
        p50, p99 = by_time.get(interval.at_ms, (float("nan"), float("nan")))
        yield {
            "at_s": interval.at_ms / 1000,
            "seconds": round(interval.duration_ms / 1000, 3),
            "clients": interval.clients,
            "done": interval.done,
            "failed": interval.failed,
            "throughput_tps": round(interval.throughput_tps, 1),
            "response_ms_p50": round(float(p50), 3),
            "response_ms_p99": round(float(p99), 3),
        }
