"""Options of the current command line that are not in its spec, recorded to repeat the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pgdyno.cli.types import Duration

_PATHS = ("recording", "pg_bindir")


def given_options(*names: str) -> list[str]:
    """Return option and value of each of the parameters ``names`` that was given."""
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
