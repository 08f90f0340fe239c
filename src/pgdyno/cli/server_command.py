"""List the servers that pgdyno can start; clean up after killed runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pgdyno.errors import PgdynoError
    from pgdyno.server import RecordOutcome

HELP_ORDER = 120
_CAPABILITIES = ("lz4", "zstd", "ssl", "jit", "io_uring", "icu")


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
        click.echo(
            json.dumps(
                [
                    {
                        "version": each.version,
                        "bindir": str(each.bindir),
                        "source": each.source,
                        "capabilities": dict(each.capabilities),
                    }
                    for each in found
                ],
                indent=2,
            )
        )
        return
    for each in found:
        has = [name for name in _CAPABILITIES if each.capabilities.get(name)]
        lacks = [name for name in _CAPABILITIES if not each.capabilities.get(name)]
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
    from pgdyno.server import restore_all_leftovers, sweep

    for line in sweep(dismantle):
        click.echo(line)
    undone = restore_all_leftovers(quick=False)
    if conninfo is not None:
        for line in _settled(conninfo):
            click.echo(line)
    true = [each for each in undone if each.still_applies]
    for line in (line for each in true for line in each.sentences):
        click.echo(line)
    if left := [each for each in true if each.failed]:
        raise _not_undone(left)


def _settled(conninfo: str) -> list[str]:
    from pgdyno.server import resolve_conninfo, restore_leftovers, server_behind

    return restore_leftovers(server_behind(resolve_conninfo(conninfo), None))


def _not_undone(left: Sequence[RecordOutcome]) -> PgdynoError:
    """Return the error for undo records that could not be applied, with every remedy."""
    from pgdyno.errors import SetupError

    ways = [
        f"as a superuser of that server: {' '.join(each.manual_statements)} Then, or if that"
        f" server no longer exists: rm {each.path}"
        for each in left
        if each.manual_statements
    ]
    return SetupError(
        f"{len(left)} undo record{'s' if len(left) > 1 else ''} left",
        code="undo-pending",
        hint="\n".join(
            (
                "pgdyno server sweep CONNINFO connects in another way, or as another role",
                *ways,
            )
        ),
    )
