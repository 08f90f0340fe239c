"""``pgdyno server``: PostgreSQL servers that pgdyno can start."""

from __future__ import annotations

import json
from pathlib import Path

import click

_CAPABILITIES = ("lz4", "zstd", "ssl", "jit", "io_uring", "icu")


@click.group("server", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """PostgreSQL servers that pgdyno can start."""


@command.command("list")
@click.option("--pg-bindir", metavar="DIR", help="Another folder with a server's programs.")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text")
def list_servers(pg_bindir: str | None, output_format: str) -> None:
    """Versions, paths, and what each build has."""
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
def sweep_leftovers() -> None:
    """Remove what crashed runs left, and undo what they changed on your servers."""
    from pgdyno.disk import dismantle
    from pgdyno.server import sweep

    for line in sweep(dismantle):
        click.echo(line)
