"""Remove what pgdyno created on your server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import click

from pgdyno.cli.connection import conninfo_for, conninfo_of
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database
from pgdyno.cli.positional import parse_positional
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.errors import UsageError
from pgdyno.escaping import visible_line

if TYPE_CHECKING:
    from pgdyno.server import ConnInfo
    from pgdyno.workload.cleanup import CleanupPlan

HELP_ORDER = 110


@click.command("cleanup")
@taking_options
def command(
    what: Database,
    connect: ConnectOptions,
    dry_run: Annotated[
        bool,
        click.option(
            "--dry-run", is_flag=True, help="Show what would be removed, and remove nothing."
        ),
    ],
    yes: Annotated[
        bool, click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
    ],
) -> None:
    """Remove what pgdyno created on your server.

    Removes tables with pgdyno's comment, in every database that you can connect to, and the
    database pgdyno, if pgdyno created it and it contains nothing else. Restores settings that a
    killed pgdyno left changed. Keeps roles.
    """
    from pgdyno.server import exclusive_use, leftover_settings
    from pgdyno.workload.cleanup import clean_up, plan_cleanup

    conninfo = _server(what, connect)
    with exclusive_use(conninfo, wait_ms=0, note=_note):
        left, plan = leftover_settings(conninfo), plan_cleanup(conninfo)
        _show(left, plan)
        if not (left or plan.removals) or dry_run:
            return
        _confirm(yes=yes)
        clean_up(conninfo, left, plan, note=_print_line)


def _server(what: tuple[str, ...], connect: ConnectOptions) -> ConnInfo:
    from pgdyno.server import resolve_conninfo, server_behind
    from pgdyno.server.versions import caution
    from pgdyno.workload.cleanup import outside_own_database

    positional = parse_positional(what)
    text = conninfo_of(positional, connect)
    if positional.builtin or positional.spec_path or text is None:
        raise UsageError(
            "cleanup requires a server: a database, a connection string, -h or -d",
            code="no-server-named",
        )
    entrance = resolve_conninfo(conninfo_for(text, connect.prompt))
    conninfo = server_behind(entrance, connect.control)
    caution(conninfo.version, _note)
    return outside_own_database(conninfo)


def _show(left: list[str], plan: CleanupPlan) -> None:
    for line in plan.kept:
        _print_line(f"kept: {line}")
    if left:
        _print_line(f"to restore: {', '.join(left)}, left changed by a killed pgdyno")
    for removal in plan.removals:
        _print_line(f"to remove: {removal.what}")
    if not (left or plan.removals):
        _print_line("nothing to remove")


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was removed: no terminal to confirm on", code="not-confirmed", hint="add -y"
        )
    if not click.confirm("Remove all of it?"):
        raise UsageError("nothing was removed", code="not-confirmed")


def _note(text: str) -> None:
    click.echo(text, err=True)


def _print_line(line: str) -> None:
    """Print one line; names may contain control characters."""
    click.echo(visible_line(line))
