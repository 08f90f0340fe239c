"""Compare variants of a load that begin with the same state of a server."""

from __future__ import annotations

from typing import Annotated

import click

from pgdyno.cli.files import run_path, wanted_page
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import DatabaseLoad
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration

HELP_ORDER = 64


@click.command("branch")
@taking_options
def command(
    load: DatabaseLoad,
    time: Annotated[
        int | None,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time of each measurement (default: load.hold of the spec).",
        ),
    ],
    before: Annotated[
        int | None,
        click.option(
            "--before",
            type=Duration(),
            help="Time under load before the state is saved (default: branching.before of the"
            " spec).",
        ),
    ],
    rounds: Annotated[
        int | None,
        click.option(
            "--rounds",
            type=click.IntRange(3, 1000),
            metavar="N",
            help="Measurements of each branch (default: branching.rounds of the spec, 6).",
        ),
    ],
    settings: StartSettings,
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
    from pgdyno.cli.session import session_for
    from pgdyno.results.trust import check_trust
    from pgdyno.scenario.branch import run_branches
    from pgdyno.scenario.branch_variants import repeated, variants_of, with_cloning_disk

    positional = parse_positional(load.what)
    spec, spec_text = build_spec(
        positional, load, settings=settings, time_ms=time, quiet=progress.quiet
    )
    spec = repeated(spec, before_ms=before, rounds=rounds)
    variants = variants_of(spec)
    path = run_path(output.output, spec.name)
    page = wanted_page(output.report)
    spec, note = with_cloning_disk(spec)
    with session_for("branch", load, progress, spec, spec_text, path) as session:
        if note:
            session.watcher.note(note)
        result = run_branches(session, variants)
    print_result(output.output_format, path, result.to_json())
    write_page(path, page)
    check_trust(result)
