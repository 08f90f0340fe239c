"""Choices of the user about an import, the one server whose requests are taken, the result, and the
account of the parts that are not supported.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.numbers import listed
from pgdyno.spec.http import parse_url

_SHOWN_MAX = 8
_SERVERS_SHOWN_MAX = 6


class Choices(Struct, frozen=True):
    """Choices of the user about an import."""

    partial: bool = False
    """Take the supported parts, and leave the others out."""
    origin: str | None = None
    """Of several servers the one whose requests are taken."""
    url: str | None = None
    """Server to use instead of the one that the file names."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Values for variables and properties of a plan."""
    credentials: bool = False
    """Send the cookies and the Authorization headers of a recording."""
    pauses: bool = True
    """Pause between the pages of a recording."""
    outside_files: bool = False
    """Read files that a plan names outside of its directory."""
    scale: float = 1.0
    """Times the rows of the source that the clone of a capture has."""
    one_group: bool = False
    """Have one client group for all applications of a capture."""


class Imported(Struct, frozen=True):
    """A spec with its scripts."""

    name: str
    fields: Fields
    """TOML-shaped; scripts are named by their file names."""
    scripts: dict[str, str]
    """File name → text."""
    tables: dict[str, str]
    """File name → lines for ``\\csv``."""
    missing: list[str]
    """Parts that would change the load, and are not in it, each with its place."""
    notes: list[str]
    """Parts that were left out or taken differently, without which the load is the same."""
    setups: dict[str, str] = field(default_factory=dict)
    """File name → text of the setup."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the server that a load was captured on."""


class ImportAccount:
    """Everything of a file that is not taken as it is, in order of its lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._missing: list[tuple[int, str]] = []
        self._notes: list[tuple[int, str]] = []

    def missing(self, line: int, text: str) -> str:
        """Add a part that would change the load; return its text with its place."""
        self._missing.append((line, text))
        return self.at(line, text)

    def note(self, line: int, text: str) -> None:
        """Add a part without which the load is the same. Line 0 is the whole file."""
        if (line, text) not in self._notes:
            self._notes.append((line, text))

    def at(self, line: int, text: str) -> str:
        """Return a text after its place."""
        return f"{self.file}:{line}: {text}" if line else f"{self.file}: {text}"

    @property
    def all_missing(self) -> list[str]:
        """Everything that would change the load."""
        return [self.at(*each) for each in sorted(set(self._missing))]

    @property
    def all_notes(self) -> list[str]:
        """Everything without which the load is the same."""
        return [self.at(*each) for each in sorted(self._notes)]

    def check(self, *, partial: bool) -> None:
        """Raise UsageError for what is missing, unless the import may be ``partial``."""
        missing = self.all_missing
        if not missing or partial:
            return
        shown = missing[:_SHOWN_MAX]
        if len(missing) > _SHOWN_MAX:
            shown.append(f"and {len(missing) - _SHOWN_MAX} more")
        raise UsageError(
            "\n  ".join(shown),
            code="import-incomplete",
            hint=f"pgdyno import --partial {self.file} writes the rest as a spec and scripts, with"
            " what is missing named where it was",
        )


def chosen_origin(origins: Counter[str], nowhere: list[int], file: str, choices: Choices) -> str:
    """Return scheme, host and port. ``nowhere`` are lines of requests that name no server.

    Raises UsageError if there is none, or several and no choice.
    """
    if choices.origin is not None:
        return _asked(choices.origin, origins, file)
    if len(origins) > 1:
        raise UsageError(
            f"{file}: the requests go to several servers: {_listed(origins)}",
            code="import-several-servers",
            hint="take those to one: pgdyno import --origin"
            f" {origins.most_common(1)[0][0]} {shlex.quote(file)}",
        )
    if choices.url is not None and not origins:
        return parse_url(choices.url).origin
    if not origins:
        where = f":{nowhere[0]}" if nowhere else ""
        raise UsageError(
            f"{file}{where}: no server is named",
            code="import-no-server",
            hint="name it with --url http://HOST:PORT",
        )
    return next(iter(origins))


def _asked(asked: str, origins: Counter[str], file: str) -> str:
    try:
        origin = parse_url(asked).origin
    except ValueError as problem:
        raise UsageError(f"--origin: {problem}", code="import-origin") from None
    if origin not in origins:
        raise UsageError(
            f"{file}: no request goes to {origin}",
            code="import-other-server",
            hint=f"they go to {_listed(origins)}" if origins else None,
        )
    return origin


def _listed(origins: Counter[str]) -> str:
    return listed(
        [f"{origin} ({count})" for origin, count in origins.most_common()], _SERVERS_SHOWN_MAX
    )
