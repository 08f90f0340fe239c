"""List the servers that pgdyno can start; clean up after killed runs."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.printed import print_json

HELP_ORDER = 120


@click.group("server", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """PostgreSQL servers that pgdyno can start."""


@command.command("list")
@click.option("--pg-bindir", metavar="DIR", help="Another directory with PostgreSQL binaries.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the result on stdout (default text).",
)
def list_servers(pg_bindir: str | None, output_format: str) -> None:
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


@command.command("sweep")
@click.argument("conninfo", required=False)
def sweep_leftovers(conninfo: str | None) -> None:
    """Remove what killed runs left, and restore settings that they changed on your servers.

    With CONNINFO, connect to that server with it instead of as the killed run did.
    """
    from pgdyno.disk import dismantle
    from pgdyno.server import check_restored, restore_all_leftovers, sweep

    for line in sweep(dismantle):
        click.echo(line)
    outcomes = restore_all_leftovers(quick=False)
    if conninfo is not None:
        for line in _restored(conninfo):
            click.echo(line)
    outcomes = [each for each in outcomes if each.still_applies]
    for line in (line for each in outcomes for line in each.sentences):
        click.echo(line)
    check_restored(outcomes)


def _restored(conninfo: str) -> list[str]:
    from pgdyno.server import resolve_conninfo, restore_leftovers, server_behind

    return restore_leftovers(server_behind(resolve_conninfo(conninfo), None))
