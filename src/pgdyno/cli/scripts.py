"""Scripts and their variables, given by the options -f, -b and -D."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click

from pgdyno.errors import UsageError

DESCRIBED = {
    "tpcb-like": "<builtin: TPC-B (sort of)>",
    "simple-update": "<builtin: simple update>",
    "select-only": "<builtin: select only>",
    "business": "an order of six or seven items, 30 or 34 statements",
    "business-browse": "a page of the shop",
    "business-payment": "the payment of an order",
    "business-stream": "a batch of a stream consumer",
    "business-desk": "a screen of the help desk",
    "entity-resolution": "a record on its way through entity resolution, about 85 statements",
}
"""Built-in scripts, the first three with pgbench's descriptions."""

_VARIABLE = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*"
"""Not compiled on import: that takes longer than that of the module."""


def script_parts(
    given: Mapping[str, Any], workload: str | None
) -> str | list[dict[str, Any]] | None:
    """Return the mix of -f and -b, or the named workload."""
    parts = [_file_part(each) for each in given["files"]]
    parts += [_builtin_part(each) for each in given["builtins"]]
    if parts and workload:
        raise UsageError(
            f"the workload {workload} cannot be combined with -f or -b",
            code="contradiction",
            hint=f"to mix them: -b {workload}@1 -f FILE@1",
        )
    return parts or workload


def _file_part(text: str) -> dict[str, Any]:
    """Parse ``file@weight``; ``-`` is standard input."""
    from pgdyno.imports import is_foreign

    part = _weighted(text, "-f", "file")
    if is_foreign(Path(part["file"])):
        raise UsageError(
            f"-f {text}: this is no script",
            code="script-foreign",
            hint=f"pgdyno run {shlex.quote(part['file'])} runs it, and pgdyno import writes it as"
            " scripts",
        )
    if part["file"] == "-":
        return {**part, "file": "stdin", "text": _standard_input()}
    return part


@cache
def _standard_input() -> str:
    """Return all of standard input, which can be read only once."""
    try:
        return sys.stdin.buffer.read().decode()
    except (UnicodeDecodeError, OSError) as problem:
        raise UsageError(
            f"-f -: standard input cannot be read: {problem}", code="script-unreadable"
        ) from None


def _builtin_part(text: str) -> dict[str, Any]:
    """Parse ``name@weight``; as in pgbench, a prefix is enough, and ``list`` prints all names."""
    if text == "list":
        click.echo("Available builtin scripts:")
        for name, described in DESCRIBED.items():
            click.echo(f"  {name:>16}: {described}")
        raise click.exceptions.Exit(0)
    part = _weighted(text, "-b", "builtin")
    return {**part, "builtin": builtin_named(part["builtin"], f"-b {text}")}


def builtin_named(beginning: str, option: str) -> str:
    """Return the built-in script whose name has this prefix. Raises UsageError if not unique."""
    if beginning in DESCRIBED:
        return beginning
    matching = [name for name in DESCRIBED if name.startswith(beginning)]
    if len(matching) != 1 or not beginning:
        problem = "matches more than one script" if matching else "is not a built-in script"
        raise UsageError(
            f'{option}: "{beginning}" {problem}',
            code="unknown-builtin",
            hint=f"built-in scripts are {', '.join(DESCRIBED)}",
        )
    return matching[0]


def _weighted(text: str, option: str, key: str) -> dict[str, Any]:
    """Parse ``name@weight`` as pgbench does."""
    name, at, weight = text.rpartition("@")
    if not at:
        name, weight = text, "1"
    if not (weight.isascii() and weight.isdecimal()):
        raise UsageError(
            f'{option} {text}: the weight "{weight}" is not a whole number, 0 or more',
            code="bad-weight",
        )
    return {key: name, "weight": int(weight)}


def variables_of(definitions: tuple[str, ...]) -> dict[str, str]:
    """Return ``-D name=value`` as a mapping, checked as by pgbench. Raises :class:`UsageError`."""
    values = {}
    for definition in definitions:
        name, _, value = definition.partition("=")
        if not name or not value:
            raise UsageError(
                f'-D "{definition}" is not NAME=VALUE',
                code="bad-assignment",
                hint="for example -D batch=100",
            )
        if not re.fullmatch(_VARIABLE, name):
            raise UsageError(
                f'-D "{definition}": invalid variable name "{name}"',
                code="bad-assignment",
                hint="letters, digits and underscores, not starting with a digit",
            )
        values[name] = value
    return values
