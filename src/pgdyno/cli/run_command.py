"""Load a server once and diagnose it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.files import run_path
from pgdyno.cli.options import all_of, load_options, output_options, settings_option
from pgdyno.cli.output import print_result, print_statements
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.run_options import RUN_OPTIONS
from pgdyno.cli.spec_options import build_spec
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.conduct import Session

HELP_ORDER = 20
run_options = all_of(RUN_OPTIONS)


@click.command("run")
@load_options
@run_options
@settings_option("--set", "--setting", text="Setting to start the server with.")
@output_options
def command(**given: Any) -> None:
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
    from pgdyno.investigate.observe import observe
    from pgdyno.results.trust import check_trust

    spec, spec_text = build_spec(parse_positional(given["what"]), given)
    if given["initialize"] and given["transactions"] is None and given["time"] is None:
        if given["output_format"] != "text":
            raise UsageError(
                "--format requires a load: -i alone only creates tables",
                code="contradiction",
                hint="add -t or -T to run a load after the initialization",
            )
        initialise_only(spec, given)
        return
    path = run_path(given["output"], spec.name)
    with session_for("run", given, spec, spec_text, path) as session:
        result = observe(session, _governor(session))
    print_result(given["output_format"], path, result.to_json())
    if given["report_per_command"] and given["output_format"] == "text":
        print_statements(path)
    check_trust(result)


def _governor(session: Session) -> AbstractContextManager[None] | None:
    """Return what governs the load of a session; None if its spec asks for none."""
    if session.spec.govern is None:
        return None
    from pgdyno.govern.in_run import governing

    return governing(session)
