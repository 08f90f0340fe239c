"""Check a spec file, or print the JSON schema of specs."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.printed import print_json

HELP_ORDER = 130


@click.group("spec", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """Check a spec file, or print the JSON schema of specs."""


@command.command("check")
@click.argument("spec", metavar="SPEC.toml|RUN.db")
def check(spec: str) -> None:
    """Check a spec and its scripts without running them, and print it with all defaults.

    Also checks settings against the server that would be started, and the names of faults,
    candidates and changed keys.
    """
    from pgdyno.cli.names import check_names
    from pgdyno.conduct import read_spec_or_run
    from pgdyno.spec import spec_to_toml
    from pgdyno.workload import load_workloads, with_texts

    checked, _ = read_spec_or_run(Path(spec))
    load_workloads(with_texts(checked))
    check_names(checked)
    click.echo(spec_to_toml(checked), nl=False)


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of spec files."""
    from pgdyno.spec import spec_schema

    print_json(spec_schema())
