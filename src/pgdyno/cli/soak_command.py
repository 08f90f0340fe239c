"""Load a server for hours to weeks, in one run file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.files import run_path, wanted_page
from pgdyno.cli.grouping import sets, taking_options
from pgdyno.cli.load_options import DatabaseLoad
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings, given_options
from pgdyno.cli.output import print_result, write_page
from pgdyno.cli.types import Duration, Size
from pgdyno.errors import Interrupted

HELP_ORDER = 25


class SoakOptions(Struct, frozen=True, kw_only=True):
    """Time of the soak, and the room that it leaves on disks."""

    time: Annotated[
        int | None,
        sets(
            "load.hold",
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time under load, such as 4d (default: load.hold of the spec).",
        ),
    ]
    keep_free: Annotated[
        int,
        click.option(
            "--keep-free",
            type=Size(),
            default="1GB",
            help="End the soak before less than this is free on the disks of the run file and of a"
            " server on this machine (default 1GB).",
        ),
    ]
    settings: StartSettings


@click.command("soak")
@taking_options
def command(
    load: DatabaseLoad,
    own: SoakOptions,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Load a server for hours to weeks, in one run file.

    The same command with the same run file (-o) goes on where it ended, whatever ended it: kill
    -9, a restart of the machine, Ctrl-C, a disk that was filling. The time between is marked as a
    gap. Changes of throughput are named as they happen, and the result says whether the load
    generator, errors and connections were as intended. Without a named server, pgdyno starts one
    whose data stay beside the run file.

    \b
      pgdyno soak mixed -d soak -c 8 -T 4d -o four-days.db
      pgdyno soak mixed -d soak -c 8 -T 4d -o four-days.db     goes on
    """
    from pgdyno.cli.session import ask, measure
    from pgdyno.scenario.soak import (
        check_ended,
        check_soak,
        check_space,
        continuation_of,
        going_on,
        is_complete,
        kept_server,
        run_soak,
    )

    asked = ask("soak", load, own, output=output, progress=progress)
    spec = asked.spec
    check_soak(spec)
    named = Path(output.output) if output.output else None
    continuation = continuation_of(named, spec, scale=load.scripts.scale) if named else None
    path = continuation.path if continuation else run_path(output.output, spec.name)
    page = wanted_page(output.report)
    if continuation and is_complete(path, spec):
        _show_complete(path, page, output, own.keep_free)
        return
    server = kept_server(path, spec, goes_on=continuation is not None)
    try:
        measured = measure(
            asked,
            going_on(spec) if continuation else spec,
            partial(run_soak, keep_free_bytes=own.keep_free, kept_server=server),
            given_options("keep_free", "scale"),
            to=continuation or path,
            keep_server=server,
            ready=partial(check_space, path, keep_free_bytes=own.keep_free),
            keep_free_bytes=own.keep_free,
        )
    except Interrupted as problem:
        problem.hint = f"the same command with -o {path} goes on; {problem.hint}"
        raise
    measured.finish(partial(check_ended, keep_free_bytes=own.keep_free))


def _show_complete(path: Path, page: Path | None, output: OutputOptions, free: int) -> None:
    """Show the result of a complete soak, and raise what was raised when it was new."""
    from pgdyno.record import RunFile
    from pgdyno.results import load, recorded_json
    from pgdyno.results.soak import SoakResult
    from pgdyno.results.trust import check_trust
    from pgdyno.scenario.soak import check_ended
    from pgdyno.trial.trust import check_something_succeeded

    with RunFile(path) as run:
        check_something_succeeded(run)
        recorded, result = recorded_json(run), load(run)
    print_result(output.output_format, path, recorded)
    write_page(path, page)
    if isinstance(result, SoakResult):
        check_ended(result, free)
        check_trust(result)
