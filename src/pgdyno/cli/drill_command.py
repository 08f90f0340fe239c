"""Crash a server repeatedly and count what is lost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.completing import faults
from pgdyno.cli.options import load_options_of_several, output_options, settings_option
from pgdyno.cli.output import print_result
from pgdyno.cli.positional import parse_without_database
from pgdyno.cli.servers import ServerRun, run_on_each, servers_of
from pgdyno.cli.types import Duration
from pgdyno.drill.faults import fault_names

if TYPE_CHECKING:
    from pgdyno.drill.model import DrillOptions, DrillResult

HELP_ORDER = 50
_SCALE = 10
_CLIENTS = 16
_SEED = 1
_OWN_OPTIONS = (
    *("fault", "variant", "cuts", "load", "budget", "sham", "sector", "minimise", "cut"),
    *("recording", "detect", "seed"),
)
"""Options of the drill that are not keys of the spec."""


@click.command("drill")
@load_options_of_several
@click.option(
    "--fault",
    required=True,
    metavar="NAME",
    shell_complete=faults,
    help=f"Fault to inject: {', '.join(fault_names())}.",
)
@click.option("--variant", metavar="NAME", help="Use only this variant of the fault.")
@click.option(
    "--cuts", type=click.IntRange(1, 100_000), default=20, help="Number of cuts (default 20)."
)
@click.option(
    "--load",
    type=Duration(positive=True),
    help="Approximate duration of the load before each fault.",
)
@click.option("--budget", type=Duration(positive=True), help="Start no new cut after this time.")
@click.option(
    "--sham", is_flag=True, help="Do everything except the fault, to check the drill itself."
)
@click.option(
    "--sector",
    type=click.Choice(["512", "4096"]),
    help="Sector size in bytes, for power cuts (default: either, by seed).",
)
@click.option(
    "--minimise", is_flag=True, help="Find the fewest sectors that make a power cut fail."
)
@click.option("--cut", type=click.IntRange(1), help="Make only power cut number N.")
@click.option(
    "--recording",
    metavar="DIR",
    help="Keep the recorded load in DIR, or use the recording that is already there (power only).",
)
@click.option(
    "--detect",
    type=Duration(positive=True),
    help="Time without an answer of the primary until a standby is promoted (default 3s; failover"
    " and partition).",
)
@settings_option("--set", "--setting", text="Setting to start the server with.")
@output_options
def command(**given: Any) -> None:
    """Crash a server repeatedly and count what is lost.

    Each cut consists of load, fault, proof of the fault, and verification; see
    docs/guides/drills.md. Drills only use servers started by pgdyno. The default load is tpcb-like
    at scale 10 with 16 clients. --seed determines the times of the faults.

    \b
      pgdyno drill --fault kill --set synchronous_commit=off
      pgdyno drill --fault kill --pg-bindir DIR --pg-bindir OTHER_DIR
    """
    from pgdyno.cli.screen import watcher_for
    from pgdyno.drill.fault import find_fault
    from pgdyno.drill.running import check_drill, run_drill
    from pgdyno.drill.trust import check_drilled
    from pgdyno.drill.two_servers import comparison
    from pgdyno.record import RunFile

    positional, options = parse_without_database(given["what"], "drill"), _options(given)
    fault = find_fault(options.fault)
    servers = servers_of(positional, given, scale=_SCALE, clients=_CLIENTS)
    for spec, _ in servers.specs:
        check_drill(spec, options, fault)
    name = f"drill-{options.fault}"
    runs = servers.runs(given["output"], name, _OWN_OPTIONS)
    with watcher_for(
        quiet=given["quiet"],
        every_s=given["progress"] / 1000,
        metrics=servers.specs[0][0].metrics,
    ) as watcher:

        def drill(run: ServerRun, against: DrillResult | None) -> DrillResult:
            named = {} if positional.spec_path else {"name": name}
            return run_drill(
                run.spec.model_copy(update=named),
                options,
                watcher=watcher,
                run=run.run_path,
                spec_text=run.spec_text,
                asked=run.words,
                extra=None if against is None else partial(comparison, against=against),
            )

        result = run_on_each(runs, drill)
    with RunFile(result.run_file) as run:
        print_result(given["output_format"], run.path, run.run.result)
        check_drilled(result, run)


def _options(given: Mapping[str, Any]) -> DrillOptions:
    from pgdyno.drill.model import DrillOptions

    return DrillOptions(
        fault=given["fault"],
        cuts=given["cuts"],
        seed=_SEED if given["seed"] is None else given["seed"],
        sham=given["sham"],
        load_s=given["load"] / 1000 if given["load"] else None,
        sector_bytes=int(given["sector"]) if given["sector"] else None,
        minimise=given["minimise"],
        budget_s=given["budget"] / 1000 if given["budget"] else None,
        variant=given["variant"],
        cut=given["cut"],
        recording=given["recording"],
        detect_s=given["detect"] / 1000 if given["detect"] else None,
    )
