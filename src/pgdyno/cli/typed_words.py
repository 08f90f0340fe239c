"""Arguments that may be mistyped connection strings, and are not quoted in an error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import click

from pgdyno.cli.group import listed_commands
from pgdyno.errors import Ending
from pgdyno.redact import URI_HINT, may_hold_password, withhold

_NAMING = (
    "-d", "--dbname", "-h", "--host", "-p", "--port", "-U", "--username", "--control", "-f",
    "--file", "-o", "--output", "--report", "--log-prefix", "--recording", "--pg-bindir", "-b",
    "--builtin",
)  # fmt: skip
"""Options whose value names a server, a database, a user or a file."""
_WEIGHT = re.compile(r"(?<=\.sql)@\w*$")


def without_typed_passwords(how: Ending) -> Ending:
    """Return ``how`` without words of the command line that may contain a password."""
    names = (_WEIGHT.sub("", name) for name in _names(sys.argv[1:]))
    words = [name for name in names if may_hold_password(name)]
    if not words:
        return how
    message, hint = withhold(how.message, words), how.hint
    if hint and withhold(hint, words) != hint:
        hint = URI_HINT
    return replace(how, message=message, hint=hint)


def _names(words: list[str]) -> Iterator[str]:
    """Yield the arguments that are positional or values of the options in ``_NAMING``."""
    with_value = _options_with_value(words)
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            yield from (value,) if option in _NAMING or option not in with_value else ()
        elif word.startswith("-") and not word.startswith("--") and len(word) > 2:
            yield from (word[2:],) if word[:2] in _NAMING or word[:2] not in with_value else ()
        elif before not in with_value or before in _NAMING:
            yield word
        before = word


def _options_with_value(words: list[str]) -> set[str]:
    """Return the options of the command in ``words`` that a value follows."""
    found: set[str] = set()
    for name in words[:1]:
        with suppress(KeyError):
            command = listed_commands()[name].load()
            commands = [command, *getattr(command, "commands", {}).values()]
            for parameter in (each for command in commands for each in command.params):
                if isinstance(parameter, click.Option) and not parameter.is_flag:
                    found.update(parameter.opts)
    return found
