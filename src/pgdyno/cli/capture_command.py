"""Capture the load of a server and the schema under it, without its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database, Quiet, TextOrJson
from pgdyno.cli.output import print_json, printable
from pgdyno.cli.server_options import ConnectOptions
from pgdyno.cli.types import Duration, complete_files
from pgdyno.errors import UsageError

HELP_ORDER = 12


class _Group(click.Group):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if args and args[0] in known else ["take", *args])


@click.group("capture", cls=_Group, context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """The load of a server as a file, without anybody's data.

    The file has the tables with sizes, keys and statistics, the statements with their counts, and
    the transactions that they form. Commands that make a load take it in place of a spec, and make
    tables, rows and scripts from it. The first command below is meant where none is named.

    \b
      pgdyno capture postgresql://db.example.com/shop -o shop.pgdyno
      pgdyno capture show shop.pgdyno
      pgdyno run shop.pgdyno
    """


class CaptureOptions(Struct, frozen=True, kw_only=True):
    """Length of a capture, and its file."""

    time: Annotated[
        int,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            default="60",
            help="How long to watch the load (default 60 s).",
        ),
    ]
    output: Annotated[
        str | None,
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            shell_complete=complete_files,
            help="File to write, with a name that ends with .pgdyno.",
        ),
    ]
    logs: Annotated[
        tuple[str, ...],
        click.option(
            "--log",
            "logs",
            multiple=True,
            metavar="FILE",
            shell_complete=complete_files,
            help="Take transactions from the server's log, csvlog or jsonlog: a file of it, or its"
            " directory.",
        ),
    ]
    rename: Annotated[
        bool,
        click.option(
            "--rename",
            is_flag=True,
            help="Replace the names of tables, columns, functions and all else that SQL names.",
        ),
    ]
    output_format: TextOrJson
    quiet: Quiet


@command.command("take")
@taking_options
def take(what: Database, connect: ConnectOptions, options: CaptureOptions) -> None:
    """Capture the load of a running server, read-only.

    A role in pg_monitor is enough. With pg_read_all_data, the statistics of columns are read as
    well: numbers of different values, widths and frequencies, and never a value.

    \b
      pgdyno capture -h db.example.com shop -o shop.pgdyno
      pgdyno capture postgresql://db.example.com/shop -T 2min -o shop.pgdyno
      pgdyno capture shop --log /var/lib/postgresql/18/main/log -o shop.pgdyno
    """
    from pgdyno.capture import CaptureRequest, capture
    from pgdyno.check import Where
    from pgdyno.cli.connection import conninfo_without_load
    from pgdyno.cli.screen import watcher_for
    from pgdyno.report.words.capture import summary_text

    path = _path(options.output)
    conninfo = conninfo_without_load(what, connect, "capture")
    where = Where(conninfo, connect.control)
    logs = tuple(Path(each).expanduser() for each in options.logs)
    request = CaptureRequest(where, options.time / 1000, path, logs, options.rename)
    with watcher_for(quiet=options.quiet, every_s=1.0) as watcher:
        found = capture(request, watcher)
    _print_lines(found, summary_text(found), options.output_format)
    if options.output_format == "text":
        click.echo(printable(f"wrote {path}; all of it: pgdyno capture show {path}"))
        click.echo(printable(f"run it with: pgdyno run {path}"))


@command.command("show")
@taking_options
def show(
    file: Annotated[str, click.argument("file", metavar="FILE.pgdyno")],
    output_format: TextOrJson,
) -> None:
    """Show all that a capture has, in words.

    \b
      pgdyno capture show shop.pgdyno
    """
    from pgdyno.clone import read_capture
    from pgdyno.report.words.capture import capture_text

    found = read_capture(Path(file))
    _print_lines(found, capture_text(found), output_format)


@command.command("diff")
@taking_options
def diff(
    before: Annotated[str, click.argument("before", metavar="A.pgdyno")],
    after: Annotated[str, click.argument("after", metavar="B.pgdyno")],
    output_format: TextOrJson,
) -> None:
    """Show the differences between two captures of a load.

    Settings, applications, statements and tables that only one of them has, and figures that differ
    by a tenth or more, or shares by five points.

    \b
      pgdyno capture diff monday.pgdyno today.pgdyno
    """
    from pgdyno.clone import read_capture
    from pgdyno.clone.difference import differences
    from pgdyno.report.words.capture import differences_text

    found = differences(read_capture(Path(before)), read_capture(Path(after)))
    _print_lines(found, differences_text(found), output_format)


class AlikeOptions(Struct, frozen=True, kw_only=True):
    """Clients and length of the clone's load."""

    clients: Annotated[
        int | None,
        click.option(
            "-c",
            "--clients",
            type=click.IntRange(1),
            metavar="N",
            help="Number of clients (default: as captured).",
        ),
    ]
    time: Annotated[
        int,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            default="20",
            help="How long to watch the clone's load (default 20 s).",
        ),
    ]
    output_format: TextOrJson
    quiet: Quiet


@command.command("alike")
@taking_options
def alike_command(
    file: Annotated[str, click.argument("file", metavar="FILE.pgdyno")], options: AlikeOptions
) -> None:
    """Show how far the clone of a capture behaves as its source.

    The clone is made on a server that pgdyno starts, its load is captured as the source's was, and
    the figures of both are compared.

    \b
      pgdyno capture alike shop.pgdyno -c 8
    """
    from pgdyno.capture import alike
    from pgdyno.cli.screen import watcher_for
    from pgdyno.clone import read_capture
    from pgdyno.conduct.source_settings import with_source_settings
    from pgdyno.imports import Choices, fields_with_texts, read_foreign
    from pgdyno.report.words.capture import likeness_text
    from pgdyno.spec.read import spec_over

    path = Path(file)
    capture = read_capture(path)
    group = {} if options.clients is None else {"count": options.clients}
    fields = fields_with_texts(read_foreign(path, Choices(one_group=bool(group))))
    spec = spec_over(fields, {"server": {"statements": True}}, group, path=path)
    spec, notes = with_source_settings(spec, capture.settings)
    with watcher_for(quiet=options.quiet, every_s=1.0) as watcher:
        for note in notes:
            watcher.note(note)
        found = alike(capture, spec, options.time / 1000, watcher)
    _print_lines(found, likeness_text(found), options.output_format)


def _path(output: str | None) -> Path:
    from pgdyno.clone import SUFFIX

    if output is None:
        raise UsageError(
            "a capture needs a file",
            code="capture-file",
            hint=f"name it with -o, such as -o shop{SUFFIX}",
        )
    path = Path(output)
    if path.suffix != SUFFIX:
        raise UsageError(
            f'"{output}" does not end with {SUFFIX}',
            code="capture-file",
            hint=f"commands know a capture by its name: -o {path.stem}{SUFFIX}",
        )
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{path} exists already", code="capture-file", hint="nothing is overwritten"
        )
    return path


def _print_lines(result: Struct, lines: list[str], output_format: str) -> None:
    import msgspec

    if output_format == "json":
        fields: Any = msgspec.to_builtins(result)
        print_json(fields)
        return
    for line in lines:
        click.echo(printable(line))
