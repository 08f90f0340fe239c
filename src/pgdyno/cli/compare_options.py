"""Options of ``pgdyno compare``: the change that is measured, which may be a profile (a file of
settings, or one that comes with pgdyno) or another version of PostgreSQL, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Struct

from pgdyno.cli.grouping import sets
from pgdyno.cli.options import Matters, given_options
from pgdyno.cli.types import Duration
from pgdyno.errors import UsageError
from pgdyno.escaping import is_utf8
from pgdyno.redact import blank

if TYPE_CHECKING:
    from pgdyno.compare.own_profiles import MachineSize
    from pgdyno.compare.profile_file import Profile
    from pgdyno.spec import Spec


_CHANGES = ("settings", "pool_max", "vary", "sql", "undo_sql")
"""Parameters that define the change, other than a profile."""


def _show_profile(_ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    "Print a profile that comes with pgdyno and exit."
    if name is None:
        return
    from pgdyno.compare.own_profiles import profile_text

    click.echo(profile_text(name, _machine()).strip())
    raise click.exceptions.Exit(0)


class ProfileOptions(Struct, frozen=True, kw_only=True):
    """A profile as the changed side."""

    profile: Annotated[
        str | None,
        click.option(
            "--profile",
            metavar="FILE",
            help="Settings of the changed side: a file in the syntax of postgresql.conf, a spec"
            " with server.settings, or a profile of pgdyno: cautious (loses nothing), pgtune"
            " (PGTune's arithmetic for this machine), aggressive (for first loads, loses commits).",
        ),
    ]
    ablate: Annotated[
        bool,
        click.option(
            "--ablate",
            is_flag=True,
            help="Find the lines of the profile that make the difference, and the shortest profile"
            " that keeps it (budget: 3 to 15 min by default).",
        ),
    ] = False
    allow: Annotated[
        Literal["D0", "D1", "D2", "D3"] | None,
        click.option(
            "--allow",
            type=click.Choice(["D0", "D1", "D2", "D3"]),
            help="Highest durability class of the profile's lines (default D0 on your server, else"
            " that of the profile).",
        ),
    ] = None
    show_profile: Annotated[
        str | None,
        click.option(
            "--show-profile",
            metavar="NAME",
            is_eager=True,
            callback=_show_profile,
            help="Print a profile of pgdyno, computed for this machine, and exit.",
        ),
    ] = None


class CompareOptions(Struct, frozen=True, kw_only=True):
    """The changed side, and the time for the comparison."""

    settings: Annotated[
        tuple[str, ...],
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Server setting of the changed side.",
        ),
    ]
    base_settings: Annotated[
        tuple[str, ...],
        sets(
            "server.settings",
            "--base-set",
            "base_settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Server setting of both sides, for a server started by pgdyno.",
        ),
    ]
    vary: Annotated[
        tuple[str, ...],
        click.option(
            "--vary",
            multiple=True,
            metavar="KEY=VALUE",
            help="Spec key of the changed side, such as load.protocol=simple; with two values, of"
            " both sides, such as clients.count=8,3 or pooler.kind=none,pgbouncer.",
        ),
    ]
    sql: Annotated[
        tuple[str, ...],
        click.option(
            "--sql",
            multiple=True,
            metavar="SQL",
            help="Statement that makes the change, such as 'create index …'; several are run in the"
            " order given, in one transaction where the server allows it.",
        ),
    ]
    undo_sql: Annotated[
        tuple[str, ...],
        click.option(
            "--undo-sql",
            multiple=True,
            metavar="SQL",
            help="Statement that undoes --sql, such as 'drop index …'; several are run in the order"
            " given.",
        ),
    ]
    profiles: ProfileOptions
    against: Annotated[
        str | None,
        click.option(
            "--against",
            metavar="N|DIR",
            help="The changed side is another PostgreSQL: a major version, or a directory of"
            " binaries.",
        ),
    ]
    budget: Annotated[
        int,
        click.option(
            "--budget",
            type=Duration(positive=True),
            default="90",
            help="Time to spend (default 90 s; with --against 4 min).",
        ),
    ]
    slice_ms: Annotated[
        int | None,
        click.option(
            "--slice", "slice_ms", type=Duration(positive=True), help="Duration of each slice."
        ),
    ]
    pairs: Annotated[
        int | None,
        click.option("--pairs", type=click.IntRange(6, 1000), help="Maximum number of pairs."),
    ]
    may_apply: Annotated[
        bool,
        click.option(
            "--apply",
            "may_apply",
            is_flag=True,
            help="Allow changes of your server, by settings and --sql; they are undone at the end.",
        ),
    ]
    matters: Matters

    @property
    def slice_s(self) -> float | None:
        """Duration of each slice."""
        return None if self.slice_ms is None else self.slice_ms / 1000


def sql_of(make: tuple[str, ...], undo: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return --sql and --undo-sql as a change has them. Raises UsageError for one without the
    other, and for a text that cannot be either."""
    from pgdyno.spec.change import title_of_sql, unfit_sql

    for option, statements, other in (("--sql", make, undo), ("--undo-sql", undo, make)):
        if statements and not other:
            missing = "--undo-sql" if option == "--sql" else "--sql"
            raise UsageError(
                f"{option} requires {missing}",
                code="contradiction",
                hint="the server is without the change in every other slice: for example --sql"
                " 'create index i on t (c)' --undo-sql 'drop index i'",
            )
        for statement in statements:
            why = unfit_sql(statement) if is_utf8(statement) else "is not UTF-8 text"
            if why:
                shown = f" {title_of_sql([blank(statement)])}:" if statement.strip() else ""
                raise UsageError(f"{option}{shown} {why}", code="sql-unfit")
    return {"make": make, "undo": undo} if make else {}


def profile_of(options: ProfileOptions) -> Profile | None:
    """Return the profile of --profile, if there is one. Raises UsageError for one that cannot be
    read, and for options that do not go with it."""
    name = options.profile
    if name is None:
        for option, value in (("--ablate", options.ablate), ("--allow", options.allow)):
            if value:
                raise UsageError(f"{option} requires --profile", code="contradiction")
        return None
    if not name.strip():
        raise UsageError(
            "--profile is empty",
            code="empty-option",
            hint="name a file of settings, or cautious, pgtune or aggressive",
        )
    if others := given_options(*_CHANGES):
        raise UsageError(
            f"{others[0]} cannot be combined with --profile, which is the changed side",
            code="contradiction",
            hint="put settings into the profile; --base-set sets those of both sides",
        )
    from pgdyno.compare.own_profiles import OWN, own_profile
    from pgdyno.compare.profile_file import read_profile

    return own_profile(name, _machine()) if name in OWN else read_profile(Path(name))


def versions_of(against: str | None, spec: Spec) -> str | None:
    """Return the version or directory to compare with; None if something else is compared.

    An option that names another change overrides the spec. Raises UsageError for what cannot be
    combined.
    """
    others = given_options(*_CHANGES, "profile")
    if against is None:
        return None if others else spec.server.against
    if others:
        raise UsageError(
            f"{others[0]} cannot be combined with --against, which is the changed side",
            code="contradiction",
            hint="--base-set NAME=VALUE sets a setting of both versions",
        )
    if spec.server.kind != "embedded":
        raise UsageError(
            "--against cannot be used with a running server: pgdyno starts both versions",
            code="contradiction",
            hint="leave the connection string out, or the URL",
        )
    return against


def _machine() -> MachineSize:
    from pgdyno.compare.own_profiles import MachineSize
    from pgdyno.probe import host_facts

    facts = host_facts(None)
    return MachineSize(memory_bytes=facts["memory_bytes"], cores=facts["cores"])
