"""The type of a look, and the list of all looks.

A look reads something once: a query of the server's catalogs and statistics, or files of the
machine that it runs on. Its rows are recorded, and rules judge the recorded rows. A look is added
by an entry in a file of ``kinds/``; a query is in ``sql/``, one file for each range of server
versions, named ``look.FIRST-LAST.sql``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.registry import by_name, held_by

"""Column → value that JSON has."""
Role = Literal["", "pg_read_all_stats", "pg_read_all_settings", "pg_monitor"]


class ServerMachine(Struct, frozen=True):
    """The machine of the server, which pgdyno runs on too."""

    data_dir: Path | None
    postmaster_pid: int | None


class MissingLook(Struct, frozen=True):
    """Something that a look could not see."""

    why: str
    """The reason, without a period."""
    allow: str = ""
    """A grant, an extension or a setting that would allow it; '' if nothing would."""


def nothing_hidden(_rows: Sequence[Row]) -> MissingLook | None:
    """Return None: the query fails where something is hidden."""
    return None


class Look(Struct, frozen=True):
    """Something to read."""

    name: str
    subject: str
    """Its object, in words for the list of what was not looked at."""
    role: Role = ""
    """The role whose rights it takes: where they are lacking, the server would show less and not
    say so."""
    extension: str = ""
    """The extension whose view it reads."""
    grant: str = ""
    """The statement that allows it where the server denies it, if not membership in ``role`` or
    pg_monitor; ``{role}`` stands for the role of the connection."""
    as_is: bool = False
    """True for a query that shows the session's own settings: it runs without limits of its own."""
    option: str = ""
    """The option of pgdyno check with which it is taken; '': always."""
    lasting: bool = False
    """True if it is taken again at the end: what has begun only just now does not count yet."""
    read: Callable[[ServerMachine], list[Row]] | None = None
    """Reads the machine; None: the look is a query, unless an option asks for it."""
    hidden: Callable[[Sequence[Row]], MissingLook | None] = nothing_hidden
    """Returns the words for the data that the rows show to be hidden."""


@cache
def looks() -> tuple[Look, ...]:
    """Return all looks, ordered by name."""
    from pgdyno.looks import kinds as package

    found = by_name(held_by(package, Look), "looks", lambda each: each.name)
    return tuple(found.values())
