"""Crash a server repeatedly and count what is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.files import wanted_page
from pgdyno.cli.grouping import instead, taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.server_options import Bindirs
from pgdyno.cli.servers import ServerRun, run_on_each, servers_of
from pgdyno.cli.types import Duration, complete_faults
from pgdyno.drill.faults import fault_names

if TYPE_CHECKING:
    from pgdyno.drill.model import DrillOptions
    from pgdyno.results.drill import Drill

HELP_ORDER = 50
_SCALE = 10
_CLIENTS = 16
_SEED = 1


class CutOptions(Struct, frozen=True, kw_only=True):
    """The fault, and how often it is injected into which load."""

    fault: Annotated[
        str,
        click.option(
            "--fault",
            required=True,
            metavar="NAME",
            shell_complete=complete_faults,
            help=f"Fault to inject: {', '.join(fault_names())}.",
        ),
    ]
    variant: Annotated[
        str | None,
        click.option("--variant", metavar="NAME", help="Use only this variant of the fault."),
    ]
    cuts: Annotated[
        int,
        click.option(
            "--cuts",
            type=click.IntRange(1, 100_000),
            default=20,
            help="Number of cuts (default 20).",
        ),
    ]
    load: Annotated[
        int | None,
        click.option(
            "--load",
            type=Duration(positive=True),
            help="Approximate duration of the load before each fault.",
        ),
    ]
    budget: Annotated[
        int | None,
        click.option(
            "--budget", type=Duration(positive=True), help="Start no new cut after this time."
        ),
    ]
    sham: Annotated[
        bool,
        click.option(
            "--sham",
            is_flag=True,
            help="Do everything except the fault, to check the drill itself.",
        ),
    ]
    sector: Annotated[
        str | None,
        click.option(
            "--sector",
            type=click.Choice(["512", "4096"]),
            help="Sector size in bytes, for power cuts (default: either, by seed).",
        ),
    ]
    minimise: Annotated[
        bool,
        click.option(
            "--minimise",
            is_flag=True,
            help="Find the fewest sectors that make a power cut fail.",
        ),
    ]
    cut: Annotated[
        int | None,
        click.option("--cut", type=click.IntRange(1), help="Make only power cut number N."),
    ]
    recording: Annotated[
        str | None,
        click.option(
            "--recording",
            metavar="DIR",
            help="Keep the recorded load in DIR, or use the recording that is already there (power"
            " only).",
        ),
    ]
    detect: Annotated[
        int | None,
        click.option(
            "--detect",
            type=Duration(positive=True),
            help="Time without an answer of the primary until a standby is promoted (default 3s;"
            " failover and partition).",
        ),
    ]
    settings: StartSettings


_OWN_OPTIONS = (
    *(name for name in CutOptions.__struct_fields__ if name != "settings"),
    "seed",
)
"""Options of the drill that are not keys of the spec."""


@click.command("drill")
@taking_options
def command(
    load: Annotated[LoadOptions, instead(pg_bindir=None, urls=None, plans=None)],
    pg_bindir: Bindirs,
    own: CutOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Crash a server repeatedly and count what is lost.

    Each cut consists of load, fault, proof of the fault, and verification; see
    docs/guides/drills.md. Drills only use servers started by pgdyno. The default load is tpcb-like
    at scale 10 with 16 clients. --seed determines the times of the faults.

    \b
      pgdyno drill --fault kill --set synchronous_commit=off
      pgdyno drill --fault kill --pg-bindir DIR --pg-bindir OTHER_DIR
    """
    from pgdyno.cli.screen import watching
    from pgdyno.drill.fault import find_fault
    from pgdyno.drill.running import check_drill, run_drill
    from pgdyno.drill.trust import check_drilled
    from pgdyno.drill.two_servers import comparison
    from pgdyno.record import RunFile
    from pgdyno.results import recorded_json

    options = _options(own, load)
    fault = find_fault(options.fault)
    servers = servers_of(
        "drill", load, pg_bindir, own, scale=_SCALE, clients=_CLIENTS, quiet=progress.quiet
    )
    for spec, _ in servers.specs:
        check_drill(spec, options, fault)
    name = f"drill-{options.fault}"
    page = wanted_page(output.report)
    runs = servers.runs(output.output, name, _OWN_OPTIONS)
    with watching(progress, metrics=servers.specs[0][0].metrics) as watcher:

        def drill(run: ServerRun, against: Drill | None) -> Drill:
            named = {} if servers.from_file else {"name": name}
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
        print_result(output.output_format, run.path, recorded_json(run))
        write_page(run.path, page)
        check_drilled(result, run)


def _options(own: CutOptions, load: LoadOptions) -> DrillOptions:
    from pgdyno.drill.model import DrillOptions

    return DrillOptions(
        fault=own.fault,
        cuts=own.cuts,
        seed=_SEED if load.scripts.seed is None else load.scripts.seed,
        sham=own.sham,
        load_s=own.load / 1000 if own.load else None,
        sector_bytes=int(own.sector) if own.sector else None,
        minimise=own.minimise,
        budget_s=own.budget / 1000 if own.budget else None,
        variant=own.variant,
        cut=own.cut,
        recording=own.recording,
        detect_s=own.detect / 1000 if own.detect else None,
    )
