"""Print the shell completion script."""

from __future__ import annotations

from typing import Annotated

import click

from pgdyno.cli.grouping import taking_options

HELP_ORDER = 140
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@taking_options
def command(
    shell: Annotated[str, click.argument("shell", type=click.Choice(_SHELLS))],
) -> None:
    """Print the script that completes pgdyno's commands and options in your shell.

    \b
      eval "$(pgdyno completion bash)"                                     in ~/.bashrc
      eval "$(pgdyno completion zsh)"                                      in ~/.zshrc
      pgdyno completion fish > ~/.config/fish/completions/pgdyno.fish
    """
    from click.shell_completion import get_completion_class

    from pgdyno.cli import cli

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "pgdyno", "_PGDYNO_COMPLETE").source())
