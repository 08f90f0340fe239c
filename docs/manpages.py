"""Man pages of the commands, made from the commands' own help.

One page for each command, as git and PostgreSQL have it: ``pgdyno-compare.1``. Written in the
macros of man(7).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

import click

EXIT_STATUSES = (
    ("0", "Good."),
    ("1", "Usage or set-up: nothing was measured."),
    ("2", "The run failed; what was recorded is kept."),
    ("3", "A threshold or regression check failed."),
    ("4", "The measurement cannot be trusted."),
    ("130, 143, 129", "Interrupted by SIGINT, SIGTERM, SIGHUP."),
)


def man_page(
    path: tuple[str, ...], context: click.Context, below: Mapping[str, click.Command], version: str
) -> str:
    """The page of the command at ``path``; ``below`` are its subcommands."""
    name = "-".join(path)
    command = context.command
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    short = command.get_short_help_str(limit=200).rstrip(".")
    parts = [
        f'.TH "{name.upper()}" "1" "" "pgdyno {version}" "pgdyno"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(short[:1].lower() + short[1:])}",
        ".SH SYNOPSIS",
        f".B {_text(usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(inspect.cleandoc(command.help or "")),
        *_options(context),
        *_subcommands(name, below),
        ".SH EXIT STATUS",
        *(line for status in EXIT_STATUSES for line in _entry(*status)),
        ".SH SEE ALSO",
        _see_also(path, below),
    ]
    return "\n".join(parts) + "\n"


def _options(context: click.Context) -> Iterator[str]:
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(context))]
    if records:
        yield ".SH OPTIONS"
    for option, text in records:
        yield from _entry(option, text)


def _subcommands(name: str, below: Mapping[str, click.Command]) -> Iterator[str]:
    if below:
        yield ".SH COMMANDS"
    for word, command in below.items():
        yield from _entry(f"{name}-{word}(1)", command.get_short_help_str(limit=200))


def _see_also(path: tuple[str, ...], below: Mapping[str, click.Command]) -> str:
    """The page above, and those below; pgbench's for the first."""
    above = ["-".join(path[:-1])] if len(path) > 1 else ["pgbench"]
    names = [*above, *("-".join([*path, word]) for word in below)]
    return ",\n".join(f"{_text(name)}(1)" for name in names)


def _paragraphs(help_text: str) -> Iterator[str]:
    """The help's paragraphs; those that click leaves as they are stay as they are."""
    for number, paragraph in enumerate(help_text.split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b\n"):
            yield from (".nf", *(_line(line) for line in paragraph[2:].splitlines()), ".fi")
        else:
            yield from (_line(line) for line in paragraph.splitlines())


def _entry(term: str, text: str) -> tuple[str, str, str]:
    return ".TP", f".B {_text(term)}", _line(text)


def _line(text: str) -> str:
    """A line of text, which no macro begins."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _text(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
