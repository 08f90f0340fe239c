"""Options of ``pgdyno compare`` for profiles: a file of settings, or one that comes with pgdyno."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgdyno.cli.given_options import given_options
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.profile.own import Machine
    from pgdyno.profile.reading import Profile


def _show_profile(_ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    "Print a profile that comes with pgdyno and exit."
    if name is None:
        return
    from pgdyno.profile.own import profile_text

    click.echo(profile_text(name, _machine()).strip())
    raise click.exceptions.Exit(0)


PROFILE_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--profile",
        metavar="FILE",
        help="Settings of the changed side: a file in the syntax of postgresql.conf, a spec with"
        " server.settings, or a profile of pgdyno: cautious (loses nothing), pgtune (PGTune's"
        " arithmetic for this machine), aggressive (for first loads, loses commits).",
    ),
    click.option(
        "--ablate",
        is_flag=True,
        help="Find the lines of the profile that make the difference, and the shortest profile"
        " that keeps it (budget: 3 to 15 min by default).",
    ),
    click.option(
        "--allow",
        type=click.Choice(["D0", "D1", "D2", "D3"]),
        help="Highest durability class of the profile's lines (default D0 on your server, else"
        " that of the profile).",
    ),
    click.option(
        "--show-profile",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_show_profile,
        help="Print a profile of pgdyno, computed for this machine, and exit.",
    ),
]


def profile_of(given: Mapping[str, Any]) -> Profile | None:
    """Return the profile of --profile, if there is one. Raises UsageError for one that cannot be
    read, and for options that do not go with it."""
    name: str | None = given["profile"]
    if name is None:
        for option in ("ablate", "allow"):
            if given[option]:
                raise UsageError(f"--{option} requires --profile", code="contradiction")
        return None
    if not name.strip():
        raise UsageError(
            "--profile is empty",
            code="empty-option",
            hint="name a file of settings, or cautious, pgtune or aggressive",
        )
    if others := given_options("settings", "pool_max", "vary"):
        raise UsageError(
            f"{others[0]} cannot be combined with --profile, which is the changed side",
            code="contradiction",
            hint="put settings into the profile; --base-set sets those of both sides",
        )
    from pgdyno.profile.own import OWN, own_profile
    from pgdyno.profile.reading import read_profile

    return own_profile(name, _machine()) if name in OWN else read_profile(Path(name))


def _machine() -> Machine:
    from pgdyno.probe import host_facts
    from pgdyno.profile.own import Machine

    facts = host_facts(None)
    return Machine(memory_bytes=facts["memory_bytes"], cores=facts["cores"])
