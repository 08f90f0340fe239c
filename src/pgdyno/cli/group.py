"""The commands of ``pgdyno``: every file ``NAME_command.py`` of this directory.

``pgdyno --help`` reads two lines of such a file and does not import it: the first line of its
docstring is the line in the help, and ``HELP_ORDER`` is its place there; without it, a command is
listed last. A file is imported when its command is used; it contains the command as ``command``.

A long option may be given by the beginning of its name, as getopt_long(3) accepts it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

_SUFFIX = "_command"
_HELP = re.compile(r'"""(.+?)\.?(?:""")?$', re.MULTILINE)
_ORDER = re.compile(r"^HELP_ORDER = ([0-9]+)$", re.MULTILINE)
_LAST = 1_000_000


@dataclass(frozen=True)
class Listed:
    """A command as ``pgdyno --help`` lists it."""

    name: str
    help: str
    module: str

    def load(self) -> click.Command:
        """Import the command's file and return the command."""
        command: click.Command = importlib.import_module(self.module).command
        return command


@cache
def listed_commands() -> dict[str, Listed]:
    """Return every command by name, in the order of the help."""
    found = sorted(_read(path) for path in Path(__file__).parent.glob(f"*{_SUFFIX}.py"))
    return {
        name: Listed(name, text, f"{__package__}.{name.replace('-', '_')}{_SUFFIX}")
        for _, name, text in found
    }


def _read(path: Path) -> tuple[int, str, str]:
    """Return order, name and line of help of the command in the file ``path``."""
    text = path.read_text(encoding="utf-8")
    described, order = _HELP.match(text), _ORDER.search(text)
    if described is None:
        raise ValueError(f"{path.name} does not begin with a docstring")
    name = path.stem.removesuffix(_SUFFIX).replace("_", "-")
    return int(order[1]) if order else _LAST, name, described[1]


class LazyGroup(click.Group):
    """A group of the listed commands, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(listed_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        listed = listed_commands().get(cmd_name)
        return None if listed is None else listed.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, words = super().resolve_command(ctx, args)
        return name, command, _with_whole_options(command, words) if command else words

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.help) for each in listed_commands().values()])


def _with_whole_options(command: click.Command, words: list[str]) -> list[str]:
    """Return ``words`` with each unambiguous beginning of a long option completed."""
    options = {
        name: parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }
    return list(_expanded(options, words))


def _expanded(options: dict[str, click.Option], words: list[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield word
            yield from rest
            return
        beginning, equals, value = word.partition("=")
        if not word.startswith("--") or beginning in options:
            yield word
            continue
        meant = {
            (parameter.name, name in parameter.opts): name
            for name, parameter in options.items()
            if name.startswith(beginning)
        }
        yield f"{next(iter(meant.values()))}{equals}{value}" if len(meant) == 1 else word
