"""Write a JMeter test plan or a HAR file as a spec with scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.load_options import AllowFiles
from pgdyno.cli.options import TextOrJson
from pgdyno.cli.output import print_json, printable

if TYPE_CHECKING:
    from pgdyno.imports import Imported

HELP_ORDER = 25


class ImportOptions(Struct, frozen=True, kw_only=True):
    """Choice of what is taken of the file, and the place to write to."""

    output: Annotated[
        str | None,
        click.option(
            "-o",
            "--output",
            metavar="DIR",
            help="Directory to write to (default: the name of the file).",
        ),
    ]
    url: Annotated[
        str | None,
        click.option("--url", metavar="URL", help="Server to use instead of the one in the file."),
    ]
    origin: Annotated[
        str | None,
        click.option(
            "--origin",
            metavar="URL",
            help="Server whose requests are taken, if the file has requests to several.",
        ),
    ]
    partial: Annotated[
        bool,
        click.option(
            "--partial",
            is_flag=True,
            help="Take what can be taken; what is missing is named in the scripts, where it was.",
        ),
    ]
    define: Annotated[
        tuple[str, ...],
        click.option(
            "-D",
            "--define",
            multiple=True,
            metavar="NAME=VALUE",
            help="Variable or property of a plan.",
        ),
    ]
    credentials: Annotated[
        bool,
        click.option(
            "--credentials",
            is_flag=True,
            help="Keep the cookies and the Authorization headers that a browser sent.",
        ),
    ]
    pauses: Annotated[
        bool,
        click.option(
            "--pauses/--no-pauses",
            default=True,
            help="Keep the recorded pauses between pages (default on).",
        ),
    ]
    allow_files: AllowFiles
    output_format: TextOrJson


@click.command("import")
@taking_options
def command(
    file: Annotated[str, click.argument("file", metavar="PLAN.jmx|SITE.har")],
    own: ImportOptions,
) -> None:
    """Write a JMeter test plan or a HAR file as a spec with scripts.

    The spec and the scripts can be edited, and pgdyno run SPEC.toml runs them; pgdyno run PLAN.jmx
    runs a plan as it is. What a file has and scripts cannot say is named with its line, and nothing
    is then written without --partial.

    \b
      pgdyno import plan.jmx -o shop
      pgdyno import site.har --origin https://shop.example
    """
    from pgdyno.cli.scripts import check_url, variables_of
    from pgdyno.imports import Choices, read_foreign, write_import

    if own.url is not None:
        check_url(own.url, "--url")
    path = Path(file)
    choices = Choices(
        url=own.url,
        origin=own.origin,
        variables=variables_of(own.define),
        partial=own.partial,
        credentials=own.credentials,
        pauses=own.pauses,
        outside_files=own.allow_files,
    )
    imported = _with_settings(read_foreign(path, choices))
    directory = Path(path.stem) if own.output is None else Path(own.output)
    written = write_import(imported, directory, path)
    if own.output_format == "json":
        print_json(
            {
                "files": [str(each) for each in written],
                "missing": imported.missing,
                "notes": imported.notes,
            }
        )
    else:
        _print(imported, written)


def _with_settings(imported: Imported) -> Imported:
    """Return an import with the settings of the server that its load was captured on, as far as
    the server that would be started here can have them."""
    if not imported.settings:
        return imported
    from msgspec.structs import replace

    from pgdyno.conduct.source_settings import with_source_settings
    from pgdyno.imports import fields_with_texts
    from pgdyno.spec import spec_from_fields

    spec = spec_from_fields(fields_with_texts(imported))
    spec, notes = with_source_settings(spec, imported.settings)
    fields = {**imported.fields, "server": {"settings": spec.server.settings}}
    return replace(imported, fields=fields, notes=[*imported.notes, *notes])


def _print(imported: Imported, written: list[Path]) -> None:
    for path in written:
        click.echo(printable(f"wrote {path}"))
    for text in imported.missing:
        click.echo(printable(f"missing: {text}"))
    for text in imported.notes:
        click.echo(printable(f"note: {text}"))
    click.echo(printable(f"run it with: pgdyno run {written[0]}"))
