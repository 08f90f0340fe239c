"""Check a spec file, or print the JSON schema of specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.output import print_json

if TYPE_CHECKING:
    from pgdyno.spec import Spec

HELP_ORDER = 130


@click.group("spec", context_settings={"help_option_names": ["-?", "--help"]})
def command() -> None:
    """Check a spec file, or print the JSON schema of specs."""


@command.command("check")
@taking_options
def check(
    spec: Annotated[str, click.argument("spec", metavar="SPEC.toml|RUN.db")],
) -> None:
    """Check a spec and its scripts without running them, and print it with all defaults.

    Also checks settings against the server that would be started, and the names of faults,
    candidates and changed keys.
    """
    from pgdyno.conduct import read_spec_or_run
    from pgdyno.spec import spec_to_toml
    from pgdyno.workload import load_workloads, with_texts

    checked, _ = read_spec_or_run(Path(spec))
    load_workloads(with_texts(checked))
    _check_names(checked)
    click.echo(spec_to_toml(checked), nl=False)


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of spec files."""
    from pgdyno.spec import spec_schema

    print_json(spec_schema())


def _check_names(spec: Spec) -> None:
    """Raise UsageError for an invalid name that other modules define: settings, faults, candidates,
    keys. Raise SetupError if the server is not installed. A run would report them only when it
    needs them."""
    from pgdyno.conduct import check_settings
    from pgdyno.dimension import change_of, spec_with
    from pgdyno.drill.fault import find_fault
    from pgdyno.scenario.branch_variants import variants_of

    for chapter in spec.story:
        if chapter.fault is not None:
            find_fault(chapter.fault)
    if spec.branches:
        variants_of(spec)
    changes = list(_changes(spec))
    for keys, _ in changes:
        spec_with(spec, change_of(keys=keys))
    if spec.server.kind == "embedded":
        check_settings(spec, spec.server.settings, *(settings for _, settings in changes))


def _changes(spec: Spec) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Yield keys and settings of everything that the spec would change."""
    from pgdyno.price.candidates import choose

    for event in spec.events:
        yield {}, event.settings or {}
    for chapter in spec.story:
        yield chapter.vary, chapter.settings
    for branch in spec.branches:
        yield branch.vary, branch.settings
    if spec.price.ladder is not None or spec.price.candidates:
        prices = spec.price
        candidates = choose(prices.ladder, prices.candidates, spec, where="price.candidates")
        for candidate in candidates:
            yield {**candidate.base.spec, **candidate.change.spec}, candidate.change.settings
