"""Run a scenario that comes with pgdyno, on a server started by pgdyno."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import click

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.types import Duration
from pgdyno.errors import SetupError, UsageError

HELP_ORDER = 10
_DEFAULT = "write-heavy-web"


@click.command("demo")
@taking_options
def command(
    name: Annotated[str, click.argument("name", default=_DEFAULT, metavar="[SCENARIO]")],
    listing: Annotated[
        bool, click.option("--list", "listing", is_flag=True, help="List the scenarios.")
    ],
    copy: Annotated[
        str | None,
        click.option(
            "--copy", metavar="DIR", help="Copy all scenarios to a new directory, for editing."
        ),
    ],
    budget: Annotated[
        int | None,
        click.option(
            "--budget", type=Duration(positive=True), help="Time to spend on an investigation."
        ),
    ],
) -> None:
    """Run a scenario on a server that pgdyno starts for it and removes at the end.

    The default scenario, write-heavy-web, shows a pool that is too small, then the commit flush,
    then checkpoints. It takes three to four minutes.

    \b
      pgdyno demo
      pgdyno demo --list
      pgdyno demo --copy my-scenarios
    """
    if listing:
        _print_list()
    elif copy is not None:
        _copy(Path(copy))
    else:
        _run(click.get_current_context(), _path_of(name), budget)


def scenarios_dir() -> Path:
    """Return the directory of the scenarios."""
    return Path(__file__).parents[1] / "scenarios"


def _paths() -> dict[str, Path]:
    return {path.stem: path for path in sorted(scenarios_dir().glob("*.toml"))}


def _path_of(name: str) -> Path:
    paths = _paths()
    if name not in paths:
        raise UsageError(
            f'"{name}" is not a scenario',
            code="unknown-scenario",
            hint=f"scenarios are {', '.join(paths)}",
        )
    return paths[name]


def _run(context: click.Context, path: Path, budget_ms: int | None) -> None:
    """Run the scenario with its command, as if typed by the user."""
    from pgdyno.spec import read_spec
    from pgdyno.spec.units import format_duration

    spec, _ = read_spec(path)
    words = [spec.command, str(path)]
    if budget_ms is not None:
        if spec.command != "investigate":
            raise UsageError(
                f"--budget is for investigations, and {path.stem} is not one",
                code="contradiction",
            )
        words += ["--budget", format_duration(budget_ms)]
    click.echo(f"pgdyno {' '.join(words)}", err=True)
    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, click.Group)
    command = group.get_command(context, words[0])
    assert command is not None
    with command.make_context(words[0], words[1:], parent=context.parent) as inner:
        command.invoke(inner)


def _print_list() -> None:
    from pgdyno.spec import read_spec

    rows = []
    for name, path in _paths().items():
        spec, _ = read_spec(path)
        rows.append((name, f"{spec.description} (pgdyno {spec.command})"))
    formatter = click.HelpFormatter(width=100)
    formatter.write_dl(rows)
    click.echo(formatter.getvalue(), nl=False)


def _copy(to: Path) -> None:
    try:
        shutil.copytree(scenarios_dir(), to)
    except FileExistsError:
        raise UsageError(f"--copy {to}: already exists", code="file-exists") from None
    except OSError as problem:
        raise SetupError(f"--copy {to}: {problem.strerror}", code="not-writable") from None
    click.echo(f"{to}: {', '.join(path.name for path in sorted(to.glob('*.toml')))}")
