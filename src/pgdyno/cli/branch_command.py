"""Compare variants of a load that begin with the same state of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import sets, taking_options
from pgdyno.cli.load_options import UnplannedLoad
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings
from pgdyno.cli.types import Duration

if TYPE_CHECKING:
    from pgdyno.conduct import Session
    from pgdyno.results.branch import BranchResult

HELP_ORDER = 64


class BranchOptions(Struct, frozen=True, kw_only=True):
    """Time and number of the measurements."""

    time: Annotated[
        int | None,
        sets(
            "load.hold",
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time of each measurement (default: load.hold of the spec).",
        ),
    ]
    before: Annotated[
        int | None,
        click.option(
            "--before",
            type=Duration(),
            help="Time under load before the state is saved (default: branching.before of the"
            " spec).",
        ),
    ]
    rounds: Annotated[
        int | None,
        click.option(
            "--rounds",
            type=click.IntRange(3, 1000),
            metavar="N",
            help="Measurements of each branch (default: branching.rounds of the spec, 6).",
        ),
    ]
    settings: StartSettings


@click.command("branch")
@taking_options
def command(
    load: UnplannedLoad,
    own: BranchOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Compare variants of a load that begin with the same state of a server.

    Starts a server, makes the tables, loads it (--before), stops it and saves its data directory.
    Then each of the spec's [[branches]] runs from that state in every round: the data directory is
    replaced by a clone, and rows and pages are compared with those that were saved. The order
    rotates, and each branch is compared with the first one in pairs, one for each round.

    \b
      pgdyno branch scenarios/freeze-branches.toml
      pgdyno branch mine.toml --before 60 --rounds 8 --report branches.html
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.scenario.branch import run_branches
    from pgdyno.scenario.branch_variants import repeated, variants_of, with_cloning_disk

    asked = ask("branch", load, own, output=output, progress=progress)
    spec = repeated(asked.spec, before_ms=own.before, rounds=own.rounds)
    variants = variants_of(spec)
    spec, note = with_cloning_disk(spec)

    def branches(session: Session) -> BranchResult:
        if note:
            session.watcher.note(note)
        return run_branches(session, variants)

    measure(asked, spec, branches).finish()
