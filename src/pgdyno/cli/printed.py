"""Output: JSON on stdout, limited to one document for each command, and text made printable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import click

from pgdyno.redact import blank
from pgdyno.visible import visible


@dataclass
class Printed:
    """State of the current command's output; click's context object."""

    json: bool = False


def print_json(value: object) -> None:
    """Print JSON in ASCII, which is safe in every encoding and terminal."""
    context = click.get_current_context(silent=True)
    printed = context.find_object(Printed) if context is not None else None
    if printed is not None:
        printed.json = True
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def printable(text: str) -> str:
    """Return text that may quote a server, a file or user input, made safe for a terminal."""
    return visible(blank(text))


def notes(*, quiet: bool) -> Callable[[str], None]:
    """Return what prints a note to stderr; nothing with ``quiet``."""
    return (lambda text: None) if quiet else (lambda text: click.echo(printable(text), err=True))
