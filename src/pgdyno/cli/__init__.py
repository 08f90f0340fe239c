"""The command line: ``main`` runs a command, whose file ``cli.group`` finds and imports.

Results go to stdout, everything else to stderr. An error that a user can cause ends with one
message and the exit status of the error tree (``cli.failures``).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

import click

from pgdyno.cli.failures import ignore_unraisable, report_failure, report_thread_error
from pgdyno.cli.group import LazyGroup
from pgdyno.cli.metadata import stand_in
from pgdyno.cli.output import Printed
from pgdyno.cli.process import end, hide_passwords, prepare_streams
from pgdyno.errors import STOP_SIGNALS, Interrupted, UsageError


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from pgdyno._engine import build_info

        click.echo(f"pgdyno {build_info()['version']}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-?", "--help"], "max_content_width": 100},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version.",
)
def cli() -> None:
    """A dynamometer for PostgreSQL under write load.

    Loads a server, finds the bottleneck, proves it by changing one thing and measuring again, and
    reports the gain and the cost of each remedy.

    \b
      pgdyno demo                                   a scenario, on a server started by pgdyno
      pgdyno investigate postgresql://host/db       your own server
      pgdyno run tpcb-like -c 16 -T 30              one run with a diagnosis
      pgdyno compare tpcb-like -c 8 --set synchronous_commit=off
      pgdyno drill --fault kill --set synchronous_commit=off
    """


def main() -> NoReturn:
    """Entry point of the ``pgdyno`` command."""
    os.umask(0o077)  # Only the user may read what a run records.
    stand_in()
    prepare_streams()
    hide_passwords()
    threading.excepthook = report_thread_error
    sys.unraisablehook = ignore_unraisable
    status = _status()
    # All is said. While it ends, the interpreter would let a signal kill it, with another status.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    end(status)


def _status() -> int:
    printed = Printed()
    try:
        try:
            outcome = cli.main(prog_name="pgdyno", standalone_mode=False, obj=printed)
        finally:
            sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.message, err=True)
        return UsageError.exit_status
    except (Exception, Interrupted) as problem:
        return report_failure(problem, printed)
    return outcome if isinstance(outcome, int) else 0
