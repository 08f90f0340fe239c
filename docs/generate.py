"""Regenerates what is derived from the code: the schema of specs and the command reference.

Run by ``make docs``; tests fail while the results are stale.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from pgdyno.cli import cli
from pgdyno.spec import spec_schema

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "scenarios" / "pgdyno-spec.schema.json"
REFERENCE = ROOT / "docs" / "reference" / "commands.md"


def reference() -> str:
    """Every command's help, as it prints itself."""
    parts = ["# Commands\n\nMade from the commands' own help by `make docs`.\n"]
    for path, command in _commands(cli, ("pgdyno",)):
        context = click.Context(
            command,
            info_name=" ".join(path),
            max_content_width=100,
            terminal_width=100,
            help_option_names=["-?", "--help"],
        )
        parts.append(f"## {' '.join(path)}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def schema() -> str:
    """The JSON schema of spec files."""
    return json.dumps(spec_schema(), indent=2) + "\n"


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += _commands(below, (*path, name))
    return found


if __name__ == "__main__":
    REFERENCE.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(schema())
    REFERENCE.write_text(reference())
