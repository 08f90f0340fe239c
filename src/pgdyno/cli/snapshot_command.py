"""Save a server's state under a name, for others to start from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from click.core import ParameterSource
from msgspec import Struct

from pgdyno import numbers
from pgdyno.cli.files import run_path
from pgdyno.cli.grouping import sets, taking_options
from pgdyno.cli.load_options import LoadOptions, UnplannedLoad
from pgdyno.cli.options import ProgressOptions, TextOrJson, start_settings
from pgdyno.cli.output import notes, print_json, printable
from pgdyno.cli.positional import positional_for
from pgdyno.cli.spec_options import build_spec
from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError
from pgdyno.escaping import visible_line

if TYPE_CHECKING:
    from pgdyno.scenario.snapshot import Saved, SnapshotRequest
    from pgdyno.server.local.snapshots import CopiedDatabase, Snapshot, UnfinishedSnapshot

HELP_ORDER = 65
_HEAD = ("name", "version", "size", "workload", "scale", "age", "saved (UTC)", "from")
_WITH_SOURCE = (
    *("name", "source", "pg_bindir", "pg_version", "checksums", "settings", "age", "multixact"),
    *("output_format", "progress", "quiet"),
)
"""Parameters that may be given where a database is copied."""
_CONNECTION = ("host", "port", "username", "dbname", "prompt", "control")


@click.group("snapshot", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """Named states of servers that pgdyno starts.

    A snapshot is the data directory of a server that was stopped, with the tables of a workload,
    after a load or at an age if that is wanted, or with a copy of your database. With --snapshot
    NAME, or snapshot = "NAME" in the table server of a spec, a server starts from a clone of it;
    the snapshot itself never changes.

    \b
      pgdyno snapshot save big tpcb-like -s 100
      pgdyno compare tpcb-like -c 8 --snapshot big --set synchronous_commit=off
      pgdyno snapshot save shop --from postgresql://user@host/shop
      pgdyno run -f script.sql -c 8 --snapshot shop
    """


class SaveOptions(Struct, frozen=True, kw_only=True):
    """Data, load and age of the server before its state is saved."""

    source: Annotated[
        str | None,
        click.option(
            "--from",
            "source",
            metavar="CONNINFO",
            help="Copy this database of your server, by pg_dump, instead of making tables.",
        ),
    ]
    time: Annotated[
        int | None,
        sets(
            "load.hold",
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time under load before the state is saved (default: no load).",
        ),
    ]
    age: Annotated[
        str | None,
        click.option(
            "--age",
            metavar="AGE",
            help="Age to which the oldest transaction ID is brought at the end, such as 1.7e9.",
        ),
    ]
    multixact: Annotated[
        bool,
        click.option("--multixact", is_flag=True, help="The age is that of the oldest multixact."),
    ]
    settings: Annotated[tuple[str, ...], start_settings("Setting of the server until it is saved.")]


@command.command("save")
@taking_options
def save(
    name: Annotated[str, click.argument("name")],
    load: UnplannedLoad,
    own: SaveOptions,
    output: Annotated[
        str | None,
        click.option("-o", "--output", metavar="FILE", help="Run file of the load (with -T)."),
    ],
    output_format: TextOrJson,
    progress: ProgressOptions,
) -> None:
    """Save the state of a server with the tables of a workload.

    Starts a server, makes the tables, loads it for the time of -T, brings it to an age (--age),
    stops it cleanly, and keeps its data directory under NAME: as a clone where the file system can
    (XFS, btrfs), else as a copy. What is interrupted leaves nothing. Settings are not part of it.

    With --from, the server has a copy of your database, of the same major version unless another is
    chosen, and no load is made. The database is only read; functions in it may run in the copy.

    \b
      pgdyno snapshot save big tpcb-like -s 100 -c 8 -T 60
      pgdyno snapshot save old mixed --age 1.7e9
      pgdyno snapshot save later mixed --snapshot big -T 10min
      pgdyno snapshot save shop --from postgresql://user@host/shop
    """
    from pgdyno.scenario.snapshot import request_of
    from pgdyno.server.local.snapshots import saving

    if own.source is not None:
        _refuse_load_options()
    positional = positional_for("snapshot save", load.what)
    spec, spec_text = build_spec("snapshot save", positional, load, own, quiet=progress.quiet)
    loaded = own.time is not None
    request = request_of(spec, loaded=loaded, age=own.age, multixact=own.multixact)
    with saving(name) as place:
        if own.source is not None:
            done = _saved_copy(place, request, own.source, progress)
        elif loaded:
            path = run_path(output, spec.name)
            done = _saved_loaded(place, request, load, progress, spec_text, path)
        else:
            done = _saved_tables(place, request, progress)
    if output_format == "json":
        how = {"seconds": done.seconds, "cloned": done.cloned}
        print_json({**done.snapshot.to_json(), **how})
        return
    snapshot = done.snapshot
    how_words = "cloned" if done.cloned else "copied"
    made = f"{', '.join(snapshot.workload)} at scale {snapshot.scale:,}"
    if snapshot.origin is not None and own.source is not None:
        made = f"a copy of {_database(snapshot.origin)}"
    click.echo(
        f"snapshot {name}: PostgreSQL {snapshot.version}, {made}, {numbers.size(snapshot.bytes)}"
        f" {how_words} in {done.seconds:.2f} s"
    )
    if snapshot.run_file is not None:
        click.echo(f"{snapshot.load_s:g} s under load before: pgdyno show {snapshot.run_file}")


def _refuse_load_options() -> None:
    """Raise UsageError for an option that means nothing where a database is copied."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or name in _WITH_SOURCE:
            continue
        words = context.params.get(name) if name == "what" else None
        said = f'"{words[0]}"' if words else max(parameter.opts, key=len)
        raise UsageError(
            f"{said} cannot be used with --from, which copies a database and makes no load",
            code="contradiction",
            hint="the database is named by --from alone"
            if name in _CONNECTION
            else "give it to the command that makes a load, with --snapshot",
        )


def _saved_copy(
    place: UnfinishedSnapshot, request: SnapshotRequest, source: str, progress: ProgressOptions
) -> Saved:
    """Save a copy of the user's database."""
    from psycopg.conninfo import make_conninfo

    from pgdyno.cli.connection import conninfo_for
    from pgdyno.cli.screen import watching
    from pgdyno.scenario.snapshot_copying import save_copy
    from pgdyno.server.connecting.connect import parse_conninfo

    conninfo = conninfo_for(make_conninfo("", **parse_conninfo(source)), None)
    with watching(progress) as watcher:
        return save_copy(place, request, conninfo, watcher)


def _saved_tables(
    place: UnfinishedSnapshot, request: SnapshotRequest, progress: ProgressOptions
) -> Saved:
    """Save the server with its tables."""
    from pgdyno.cli.screen import watching
    from pgdyno.scenario.snapshot import save_tables

    with watching(progress) as watcher:
        return save_tables(place, request, watcher)


def _saved_loaded(
    place: UnfinishedSnapshot,
    request: SnapshotRequest,
    load: LoadOptions,
    progress: ProgressOptions,
    spec_text: str,
    path: Path,
) -> Saved:
    """Save the server after a load, which is recorded in a run file."""
    from pgdyno.cli.session import session_for
    from pgdyno.investigate.run import run_spec
    from pgdyno.scenario.snapshot import save_loaded

    # It is a run, which its run file repeats without a snapshot.
    with session_for("run", load, progress, request.spec, spec_text, path) as session:
        run_spec(session)
        return save_loaded(place, request, session)


@command.command("list")
@taking_options
def list_all(output_format: TextOrJson) -> None:
    """List the snapshots: name, version, size, workload, age, and what each was saved from."""
    from pgdyno.server.local.snapshots import Damage, list_snapshots

    found, note = list_snapshots(), notes(quiet=False)
    if output_format == "json":
        print_json(
            [
                {"name": name, "damaged": True, "why": each.why}
                if isinstance(each, Damage)
                else each.to_json()
                for name, each in found
            ]
        )
        return
    if not found:
        note("no snapshots; pgdyno snapshot save NAME makes one")
        return
    rows = [
        (name, "damaged", *[""] * 6) if isinstance(each, Damage) else _row(each)
        for name, each in found
    ]
    for line in _aligned([_HEAD, *rows]):
        click.echo(printable(line))
    for name, each in found:
        if isinstance(each, Damage):
            note(f"warning: the snapshot {name} is damaged: {each.why}")


@command.command("remove")
@taking_options
def remove(name: Annotated[str, click.argument("name")]) -> None:
    """Remove a snapshot. Servers that started from it are not affected."""
    from pgdyno.server.local.snapshots import remove_snapshot

    remove_snapshot(name)
    click.echo(f"removed the snapshot {name}")


def _row(snapshot: Snapshot) -> tuple[str, ...]:
    aged = {"xid": snapshot.xid_age, "mxid": snapshot.mxid_age}.get(snapshot.aged or "")
    before = [f"snapshot {snapshot.parent}"] if snapshot.parent else []
    before += [f"{snapshot.load_s:g} s of load"] if snapshot.load_s else []
    before += [_database(snapshot.origin)] if snapshot.origin else []
    return (
        snapshot.name,
        snapshot.version,
        numbers.size(snapshot.bytes),
        ", ".join(snapshot.workload) or "-",
        f"{snapshot.scale:,}" if snapshot.workload else "-",
        f"{aged:,} {snapshot.aged}s" if aged else "new",
        snapshot.saved_at.removesuffix("+00:00").replace("T", " "),
        ", ".join(before) or "its tables",
    )


def _database(origin: CopiedDatabase) -> str:
    """Return the database that was copied, on one line."""
    return visible_line(f"{origin.database} of PostgreSQL {origin.version}, {origin.uri}")


def _aligned(rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()
