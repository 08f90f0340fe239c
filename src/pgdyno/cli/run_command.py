"""Load a server once and diagnose it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from pgdyno.cli.files import run_path, wanted_page
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import LoadOptions
from pgdyno.cli.options import OutputOptions, ProgressOptions, StartSettings
from pgdyno.cli.output import print_result, print_statements, write_page
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.run_options import RunOptions
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.conduct import Session

HELP_ORDER = 20


@click.command("run")
@taking_options
def command(
    load: LoadOptions,
    run: RunOptions,
    settings: StartSettings,
    output: OutputOptions,
    progress: ProgressOptions,
) -> None:
    """Load a server once and diagnose it.

    WORKLOAD is tpcb-like (the default), simple-update, select-only, mixed, business,
    entity-resolution or ingest. Without DATABASE, CONNINFO, -h or -d, pgdyno starts a PostgreSQL
    server for the run and removes it at the end. With -i, tables are created, and a load
    follows only if -t or -T is given.

    PLAN.jmx or SITE.har in place of a workload loads a web server as a JMeter test plan or the
    recording of a browser says; pgdyno import writes it as a spec with scripts.

    \b
      pgdyno run -i -s 10 shop        same as pgbench -i -s 10 shop
      pgdyno run -c 8 -T 60 shop      same as pgbench -c 8 -T 60 shop
    """
    from pgdyno.cli.session import initialise_only, session_for
    from pgdyno.investigate.run import run_spec
    from pgdyno.results.trust import check_trust

    spec, spec_text = build_spec(
        parse_positional(load.what),
        load,
        settings=settings,
        time_ms=run.time,
        run=run,
        quiet=progress.quiet,
    )
    if load.init.initialize and run.transactions is None and run.time is None:
        if output.output_format != "text" or output.report:
            asked = "--report" if output.report else "--format"
            raise UsageError(
                f"{asked} requires a load: -i alone only creates tables",
                code="contradiction",
                hint="add -t or -T to run a load after the initialization",
            )
        initialise_only(spec, load, progress)
        return
    path = run_path(output.output, spec.name)
    page = wanted_page(output.report)
    with session_for(
        "run", load, progress, spec, spec_text, path, timestamps=run.progress_timestamp
    ) as session:
        result = run_spec(session, _governor(session))
    print_result(output.output_format, path, result.to_json())
    if run.report_per_command and output.output_format == "text":
        print_statements(path)
    write_page(path, page)
    check_trust(result)


def _governor(session: Session) -> AbstractContextManager[None] | None:
    """Return what governs the load of a session; None if its spec asks for none."""
    if session.spec.govern is None:
        return None
    from pgdyno.govern.in_run import governing

    return governing(session)
