"""Profiles as users write them: postgresql.conf syntax, or the table ``server.settings`` of a spec.

Of a name that is there twice the last line counts. Files are not included from other files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.compare._conf_syntax import ConfLine, as_text, conf_lines_of, is_value
from pgdyno.errors import UsageError
from pgdyno.escaping import visible
from pgdyno.files import read_at_most

_INCLUDES = ("include", "include_if_exists", "include_dir")
_BYTES_MAX = 1 << 20
_STATEMENT = re.compile(r"\s*alter\s+system\s+(?:re)?set\b", re.IGNORECASE)
_SETTING = re.compile(r"\s*alter\s+system\s+set\s+(\S+?)\s*(?:=|\sto\s)\s*(.*?)\s*;?\s*", re.I)


class NumberedSetting(Struct, frozen=True):
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
    lines: tuple[NumberedSetting, ...]
    problems: tuple[Problem, ...] = ()
    """Lines that cannot be read."""
    repeated: tuple[Problem, ...] = ()
    """Lines without effect, since a later one has the same name."""
    adapts: bool = False
    """True for a profile of pgdyno's, whose lines that a server lacks are left out."""
    of_machine: bool = False
    """True if it was computed from the machine that pgdyno runs on."""

    @property
    def settings(self) -> dict[str, str]:
        """Name of each setting → its value."""
        return {each.setting: each.value for each in self.lines}

    def of(self, name: str) -> NumberedSetting | None:
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
    if path.suffix == ".toml":
        return _of_spec(path, raw.decode("utf-8", errors="replace"))
    return parse_profile(raw.decode("utf-8", errors="surrogateescape"), name=path.name)


def parse_profile(text: str, *, name: str) -> Profile:
    """Return the profile that ``text`` is, in the syntax of postgresql.conf."""
    lines: list[NumberedSetting] = []
    unread: list[ConfLine] = []
    problems: list[Problem] = []
    for line in conf_lines_of(text):
        if line.wrong is not None:
            unread.append(line)
        elif line.name.lower() in _INCLUDES:
            problems.append(
                Problem(
                    line.number, "other files are not included", "put their lines into this one"
                )
            )
        else:
            lines.append(NumberedSetting(line.number, line.name.lower(), line.value))
    if any(_STATEMENT.match(line.text) for line in unread):
        problems.append(_statements(unread))
    else:
        problems += map(_unreadable, unread)
    return _distinct(name, lines, problems)


def _statements(lines: list[ConfLine]) -> Problem:
    """Return the problem of a file of SQL: once, and not line by line."""
    count = sum(_STATEMENT.match(line.text) is not None for line in lines)
    found = (_SETTING.fullmatch(line.text) for line in lines)
    example = next((f"{each[1]} = {each[2]}" for each in found if each), "NAME = VALUE")
    which = "a line is" if count == 1 else f"{count} lines are"
    return Problem(
        lines[0].number,
        f"{which} SQL, ALTER SYSTEM, and a profile has lines NAME = VALUE",
        f"write {visible(example)[:80]}; or give postgresql.auto.conf of a server that has executed"
        " the file",
    )


def _unreadable(line: ConfLine) -> Problem:
    """Return at which word the server's parser stops, and how to write the line."""
    assert line.wrong is not None
    said = f"{line.name} = {line.written}" if line.written else line.text.strip()
    shown = visible(said)[:60]
    if line.wrong.kind == "end":
        return Problem(line.number, f"{shown}: there is no value", "write NAME = VALUE")
    word = visible(as_text(line.wrong.text))[:40]
    return Problem(line.number, f"{shown}: PostgreSQL stops reading at {word}", _corrected(line))


def _corrected(line: ConfLine) -> str:
    if not line.written:
        return "write NAME = VALUE, with a name of letters, digits and _"
    value = line.written.rstrip("; \t\r").strip('"')
    if re.fullmatch(r"[-+]?\d+,\d+", value):
        value = value.replace(",", ".")
    if value.startswith("'"):
        return "a text ends with its second quote; within it, write '' for a quote"
    return f"write {line.name} = {visible(quoted(value))[:80]}"


def _distinct(name: str, lines: Iterable[NumberedSetting], problems: list[Problem]) -> Profile:
    """Return the profile of lines of which some may have the same name."""
    lines = [*lines]
    last = {line.setting: line for line in lines}
    repeated = [
        Problem(line.number, f"{line} has no effect: line {last[line.setting].number} has"
                f" {last[line.setting]}")
        for line in lines
        if line is not last[line.setting]
    ]  # fmt: skip
    kept = tuple(line for line in lines if line is last[line.setting])
    problems = sorted(problems, key=lambda each: each.number)
    return Profile(name, kept, tuple(problems), tuple(repeated))


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
        NumberedSetting(_number_of(name, text), name.lower(), _as_text(value))
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


def quoted(value: str) -> str:
    """Return a value as postgresql.conf has it, quoted where that is needed."""
    if is_value(value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


def conf_lines(lines: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the lines of postgresql.conf for name, value and comment ('' for none)."""
    for name, value, comment in lines:
        text = f"{name} = {quoted(value)}"
        yield f"{text:<44} # {comment}" if comment else text
