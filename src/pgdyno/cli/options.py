"""Options that commands of every kind share (output, progress, reports, settings), and the words of
the command line that repeat those that were given."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
from click.core import ParameterSource
from msgspec import Struct

from pgdyno import credentials
from pgdyno.cli.grouping import Sets, instead, sets
from pgdyno.cli.types import Duration, Share, complete_files
from pgdyno.errors import UsageError
from pgdyno.escaping import is_utf8

_PATHS = ("recording", "pg_bindir")
"""Parameters that name a file or directory."""


Report = Annotated[
    str | None, click.option("--report", metavar="FILE", help="HTML report to write.")
]


def _keep_credentials(ctx: click.Context, _parameter: click.Parameter, kept: bool) -> None:
    if kept:
        credentials.keep(True)
        ctx.call_on_close(partial(credentials.keep, False))


class OutputOptions(Struct, frozen=True, kw_only=True):
    """Run file, and format of the result."""

    output: Annotated[
        str | None,
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            shell_complete=complete_files,
            help="Run file to write (default: a new file in pgdyno-runs/).",
        ),
    ]
    output_format: Annotated[
        str,
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["text", "json", "csv"]),
            default="text",
            help="Format of the result on stdout (default text).",
        ),
    ]
    report: Report
    credentials: Annotated[
        bool,
        click.option(
            "--credentials",
            is_flag=True,
            is_eager=True,
            callback=_keep_credentials,
            help="Record tokens, cookies and keys of web requests as they are written, not as what"
            " they hash to; of a recording, keep them.",
        ),
    ] = False


OutputWithPage = Annotated[
    OutputOptions,
    instead(
        report=click.option(
            "--report", metavar="FILE", help="HTML report to write (default: beside the run file)."
        )
    ),
]
Quiet = Annotated[
    bool,
    click.option(
        "-q", "--quiet", is_flag=True, help="Print no progress, only warnings and errors."
    ),
]
NoMessages = Annotated[
    bool,
    click.option(
        "-q", "--quiet", is_flag=True, help="Print no messages, only warnings and errors."
    ),
]


class ProgressOptions(Struct, frozen=True, kw_only=True):
    """Progress on stderr."""

    progress: Annotated[
        int,
        click.option(
            "-P",
            "--progress",
            type=Duration(positive=True),
            default="5",
            help="Interval of progress lines when stderr is not a terminal (default 5 s).",
        ),
    ]
    """In milliseconds."""
    quiet: Quiet


TextOrJson = Annotated[
    str,
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Format of the result on stdout (default text).",
    ),
]
Group = Annotated[
    str | None,
    click.option("--group", metavar="NAME", help="Client group to vary, if the spec has several."),
]
Matters = Annotated[
    float | None,
    sets(
        "load.matters",
        "--matters",
        type=Share(),
        metavar="SHARE",
        help="Smallest effect that matters (default 3% of throughput, 10% of p99 at a held rate).",
    ),
]
Database = Annotated[
    tuple[str, ...], click.argument("what", nargs=-1, metavar="[DATABASE|CONNINFO]")
]
"""The server of a command that makes no load."""


def start_settings(text: str) -> Sets:
    """Return the option for settings to start a server with."""
    return sets(
        "server.settings",
        *("--set", "--setting", "settings"),
        multiple=True,
        metavar="NAME=VALUE",
        help=text,
    )


StartSettings = Annotated[tuple[str, ...], start_settings("Setting to start the server with.")]


def parse_assignments(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return ``("a=1", "b=2")`` as a mapping. Raises :class:`UsageError` for anything else."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f'{option} "{pair}" is not NAME=VALUE',
                code="bad-assignment",
                hint=f"for example {option} synchronous_commit=off",
            )
        if not is_utf8(pair):
            raise UsageError(f'{option} "{pair}" is not UTF-8 text', code="bad-assignment")
        values[name.strip()] = value.strip()
    return values


def given_options(*names: str) -> list[str]:
    """Return option and value of each of the parameters ``names`` that was given: what a run file
    records of the options that are not in its spec, to repeat the run."""
    context = click.get_current_context()
    given = (
        parameter
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    )
    return [word for each in given for word in _words(each, context.params[str(each.name)])]


def _words(parameter: click.Parameter, value: Any) -> Iterator[str]:
    option = next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
    if isinstance(value, bool):
        yield option if value else parameter.secondary_opts[0]
        return
    several = isinstance(value, Sequence) and not isinstance(value, str)
    for each in value if several else [value]:
        yield from (option, _text_of(parameter, each))


def _text_of(parameter: click.Parameter, value: Any) -> str:
    if isinstance(parameter.type, Duration):
        from pgdyno.spec.units import format_duration

        return format_duration(value)
    # A profile is the name of one of pgdyno's, or a path; what is compared with, a version or one.
    is_path = (
        parameter.name in _PATHS
        or (parameter.name == "profile" and Path(value).is_file())
        or (parameter.name == "against" and Path(value).is_dir())
    )
    return str(Path(value).absolute()) if is_path else str(value)
