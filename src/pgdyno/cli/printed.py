"""JSON output on stdout, limited to one document for each command."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click


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
