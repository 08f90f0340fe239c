"""Random command lines, options and values of every command: all are refused, or would run.

A command that gets past its options ends at a server that is not there, so nothing is started.
"""

from __future__ import annotations

import os
import random
import string

import click
from rounds import pgdyno, play, scratch

from pgdyno.cli import cli

VALUES = (
    "0", "1", "-1", "7", "nan", "inf", "1e400", "9" * 30, "10s", "0s", "-5s", "1us", "5min", "16MB",
    "x", "", " ", "=", "a=", "=b", "a=b", "a=b=c", "@", "x@", "x@0", "x@-1", "on", "off", "on:2",
    "\x1b[31m", "\udcff", "[red]", "%s", "{0}", "postgresql://", "postgresql://u:p@/x",
    "host=a port=b", "tpcb-like", "absent.sql", "absent.toml", "/", "/proc/self/mem", "0-3", "3-0",
    "load.protocol=simple", "clients.x.count=3", "synchronous_commit=maybe", "plain", "tmpfs:1GB",
    "slow:1ms", "full_page_writes=off", "D1", "kill", "json", "1,2", "../..", "-", "--",
)  # fmt: skip
LOADING = ("run", "compare", "investigate")
"""Commands that are sent to a server that is not there."""
READING = ("show", "report", "spec")
"""Commands that only read; all others end at an option that there is not."""
NOWHERE = ["postgresql://nobody@127.0.0.1:1/none"]


def commands() -> dict[tuple[str, ...], click.Command]:
    """All commands, by their words."""
    context, found = click.Context(cli), {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                found[(name, below)] = command.get_command(context, below)
        else:
            found[(name,)] = command
    return {path: each for path, each in found.items() if each}


def value(rng: random.Random) -> str:
    if rng.random() < 0.85:
        return rng.choice(VALUES)
    return "".join(rng.choice(string.printable) for _ in range(rng.randrange(1, 12)))


def one(rng: random.Random) -> str | None:
    """One command line."""
    path, command = rng.choice(list(COMMANDS.items()))
    options = [p for p in command.params if isinstance(p, click.Option) and not p.is_eager]
    words = [*path]
    for option in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 2, 3, 5]))):
        words.append(rng.choice(option.opts))
        if not option.is_flag or rng.random() < 0.05:
            words.append(value(rng))
    words += [value(rng) for _ in range(rng.choice([0, 0, 1, 2]))]
    if path[0] in LOADING:
        words += NOWHERE
    elif path[0] not in READING:
        words.append("--no-such-option")
    said = pgdyno(*words)
    if said.complaint or said.status not in (0, 1):
        return f"{words!r}\n{said.complaint or said}"
    return None


if __name__ == "__main__":
    COMMANDS = commands()
    os.chdir(scratch())
    play("command lines", one)
