"""Long options given by the beginning of their name, as getopt_long(3) accepts them."""

from __future__ import annotations

from collections.abc import Iterator

import click


def expand_abbreviations(command: click.Command, words: list[str]) -> list[str]:
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
