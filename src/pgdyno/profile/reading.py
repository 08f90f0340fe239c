"""Profiles as users write them: postgresql.conf syntax, or the table ``server.settings`` of a spec.

The syntax is that of guc-file.l: ``name = value``, the equals sign optional, values quoted where
they are not a simple word or a number, and comments. Files are not included from other files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import UsageError
from pgdyno.files import read_at_most
from pgdyno.visible import visible

_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)?)"
    r"(?:\s*=\s*|\s+)"
    r"(?P<value>'(?:[^'\\]|''|\\.)*'|[-+.:/\w]+)"
    r"\s*(?:#.*)?"
)
_BLANK = re.compile(r"\s*(?:#.*)?")
_SIMPLE = re.compile(r"[A-Za-z_][-._:/A-Za-z0-9]*|[-+]?[0-9]+(?:\.[0-9]+)?[A-Za-z]*")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_INCLUDES = ("include", "include_if_exists", "include_dir")
_BYTES_MAX = 1 << 20


class ProfileLine(Struct, frozen=True):
    """A setting of a profile, and the number of its line."""

    number: int
    setting: str
    value: str

    def __str__(self) -> str:
        return f"{self.setting} = {self.value}"


class Problem(Struct, frozen=True):
    """A reason why a line cannot be used."""

    number: int
    sentence: str
    hint: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"line {self.number}: {self.sentence}{hint}"


class Profile(Struct, frozen=True):
    """Settings in the order of their lines."""

    name: str
    lines: tuple[ProfileLine, ...]
    problems: tuple[Problem, ...] = ()
    """Lines that cannot be read, and names that are there twice with different values."""
    repeated: tuple[Problem, ...] = ()
    """Lines that only repeat an earlier one."""
    adapts: bool = False
    """True for a profile of pgdyno's, whose lines that a server lacks are left out."""
    of_machine: bool = False
    """True if it was computed from the machine that pgdyno runs on."""

    @property
    def settings(self) -> dict[str, str]:
        """Name of each setting → its value."""
        return {each.setting: each.value for each in self.lines}

    def of(self, name: str) -> ProfileLine | None:
        """Return the line of a setting."""
        return next((each for each in self.lines if each.setting == name), None)

    def without(self, names: Iterable[str]) -> Profile:
        """Return the profile without the lines of some settings."""
        gone = {*names}
        kept = tuple(each for each in self.lines if each.setting not in gone)
        return replace(self, lines=kept)


def read_profile(path: Path) -> Profile:
    """Return the profile in a file; a file that ends in .toml is a spec. Raises UsageError."""
    try:
        raw = read_at_most(path, _BYTES_MAX)
    except OSError as problem:
        raise UsageError(
            f"the profile {visible(str(path))} cannot be read: {problem.strerror}",
            code="profile-unreadable",
            hint="a file of settings in the syntax of postgresql.conf, or one of the profiles"
            " that pgdyno compare --help lists",
        ) from None
    if len(raw) > _BYTES_MAX or b"\0" in raw:
        raise UsageError(f"{visible(str(path))} is not a profile: no text", code="profile-no-text")
    text = raw.decode("utf-8", errors="replace")
    if path.suffix == ".toml":
        return _of_spec(path, text)
    return parse_profile(text, name=path.name)


def parse_profile(text: str, *, name: str) -> Profile:
    """Return the profile that ``text`` is, in the syntax of postgresql.conf."""
    lines: list[ProfileLine] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _BLANK.fullmatch(line):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(Problem(number, f"not NAME = VALUE: {visible(line.strip())[:60]}"))
        elif match["name"].lower() in _INCLUDES:
            problems.append(
                Problem(number, "other files are not included", "put their lines into this one")
            )
        else:
            lines.append(ProfileLine(number, match["name"].lower(), _unquoted(match["value"])))
    return _distinct(name, lines, problems)


def _distinct(name: str, lines: Iterable[ProfileLine], problems: list[Problem]) -> Profile:
    """Return the profile of lines of which some may have the same name."""
    first: dict[str, ProfileLine] = {}
    repeated = []
    for line in lines:
        earlier = first.setdefault(line.setting, line)
        if earlier is line:
            continue
        where = f"is on line {earlier.number} already"
        if earlier.value == line.value:
            repeated.append(Problem(line.number, f"{line.setting} {where}"))
        else:
            problems.append(
                Problem(
                    line.number,
                    f"{line} {where}, as {earlier.value}",
                    "PostgreSQL takes the last one",
                )
            )
    return Profile(name, tuple(first.values()), tuple(problems), tuple(repeated))


def _of_spec(path: Path, text: str) -> Profile:
    """Return the profile in the table ``server.settings`` of a spec."""
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{visible(str(path))}: {problem}", code="profile-toml") from None
    server = fields.get("server")
    settings = server.get("settings") if isinstance(server, dict) else None
    if not isinstance(settings, dict):
        raise UsageError(
            f"{visible(str(path))} has no settings in its table server",
            code="profile-empty",
            hint="[server.settings], or a file in the syntax of postgresql.conf",
        )
    lines = [
        ProfileLine(_number_of(name, text), name.lower(), _as_text(value))
        for name, value in settings.items()
    ]
    return _distinct(path.name, lines, [])


def _number_of(name: str, text: str) -> int:
    """Return the line of TOML in which a name first stands before an equals sign."""
    pattern = re.compile(rf"(?:^|[\s{{,]|['\"]){re.escape(name)}['\"]?\s*=")
    found = (n for n, line in enumerate(text.splitlines(), start=1) if pattern.search(line))
    return next(found, 1)


def _as_text(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _unquoted(value: str) -> str:
    if not value.startswith("'"):
        return value
    inner = value[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), inner)


def quoted(value: str) -> str:
    """Return a value as postgresql.conf has it, quoted where that is needed."""
    if _SIMPLE.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


def conf_lines(lines: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the lines of postgresql.conf for name, value and comment ('' for none)."""
    for name, value, comment in lines:
        text = f"{name} = {quoted(value)}"
        yield f"{text:<44} # {comment}" if comment else text
