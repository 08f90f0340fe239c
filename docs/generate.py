"""Regenerates what is derived from the code: the schemas of specs and of results, the reference of
commands, errors, findings and rules, man pages; and the links by which the package takes the guides
along.

Run by ``make docs``; tests fail while the results are stale.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path

import click
import error_table
import findings_page
from manpages import man_page

from pgdyno import errors as tree
from pgdyno.cli import cli
from pgdyno.results import schemas
from pgdyno.spec import spec_schema

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "scenarios" / "pgdyno-spec.schema.json"
REFERENCE = ROOT / "docs" / "reference" / "commands.md"
ERRORS = ROOT / "docs" / "reference" / "errors.md"
FINDINGS = ROOT / "docs" / "reference" / "findings.md"
SHARE = ROOT / "packaging" / "data" / "share"
MAN_PAGES = SHARE / "man" / "man1"
GUIDES = SHARE / "doc" / "pgdyno"


def reference() -> str:
    """Every command's help, as it prints itself."""
    parts = ["# Commands\n\nMade from the commands' own help by `make docs`.\n"]
    for path, command in _commands(cli, ("pgdyno",)):
        context = _context(command, path)
        parts.append(f"## {' '.join(path)}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def errors() -> str:
    """Every error with its exit status, message and hint."""
    return error_table.page({k: getattr(tree, k).exit_status for k in error_table.STATUSES})


def findings() -> str:
    """Every finding with its trigger, its threshold and where that is from."""
    return findings_page.page()


def man_pages() -> dict[str, str]:
    """File name → man page, for each command."""
    release = version("pgdyno")
    return {
        f"{'-'.join(path)}.1": man_page(path, _context(command, path), _below(command), release)
        for path, command in _commands(cli, ("pgdyno",))
    }


def guides() -> dict[Path, str]:
    """Path of each page and dashboard of docs/ in the package → the link by which the build
    includes it."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "grafana").glob("*.json")]
    places = {page: GUIDES / page.relative_to(ROOT / "docs") for page in pages}
    return {place: os.path.relpath(page, place.parent) for page, place in places.items()}


def schema() -> str:
    """The JSON schema of spec files."""
    return json.dumps(spec_schema(), indent=2) + "\n"


def result_schemas() -> dict[Path, str]:
    """File → JSON schema, for each command's result."""
    folder = ROOT / "docs" / "reference"
    return {
        folder / f"result-{command}.schema.json": json.dumps(made, indent=2) + "\n"
        for command, made in schemas().items()
    }


def _context(command: click.Command, path: tuple[str, ...]) -> click.Context:
    return click.Context(
        command,
        info_name=" ".join(path),
        max_content_width=100,
        terminal_width=100,
        help_option_names=["-?", "--help"],
    )


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    for name, below in _below(command).items():
        found += _commands(below, (*path, name))
    return found


def _below(command: click.Command) -> dict[str, click.Command]:
    """A group's commands, by name."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    names = command.list_commands(context)
    commands = {name: command.get_command(context, name) for name in names}
    return {name: each for name, each in commands.items() if each is not None}


if __name__ == "__main__":
    REFERENCE.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(schema())
    for path, text in result_schemas().items():
        path.write_text(text)
    REFERENCE.write_text(reference())
    ERRORS.write_text(errors())
    FINDINGS.write_text(findings())
    for page in (*MAN_PAGES.glob("*.1"), *GUIDES.rglob("*.md"), *GUIDES.rglob("*.json")):
        page.unlink()
    for place, target in guides().items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    for name, text in man_pages().items():
        (MAN_PAGES / name).write_text(text)
