"""JSON on stdout, and whether there is any yet: a program that asked for it reads one document."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click


@dataclass
class Printed:
    """What the present command has printed; click's object."""

    json: bool = False


def print_json(value: object) -> None:
    """JSON in ASCII, as any program reads it and any terminal shows it."""
    context = click.get_current_context(silent=True)
    printed = context.find_object(Printed) if context is not None else None
    if printed is not None:
        printed.json = True
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))
