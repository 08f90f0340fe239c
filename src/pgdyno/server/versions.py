"""The versions of PostgreSQL that pgdyno supports."""

from __future__ import annotations

from collections.abc import Callable

SUPPORTED_MAJORS = range(14, 20)


def newer_note(version_num: int) -> str | None:
    """Return a caution for a server that is newer than supported, else ``None``."""
    major = version_num // 10000
    if major <= SUPPORTED_MAJORS[-1]:
        return None
    return (
        f"PostgreSQL {major} is newer than this pgdyno supports"
        f" ({SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]}): some probes may be missing"
    )


def caution(version_num: int | None, note: Callable[[str], None]) -> None:
    """Note that the server to which a command has connected is newer than supported, if it is."""
    if version_num is not None and (text := newer_note(version_num)) is not None:
        note(text)


def plain_version(told: str) -> str:
    """Return ``server_version`` without the packager's suffix: ``18.6``, ``19rc1``."""
    return told.split(" ", 1)[0]


def major_of(version: str) -> int:
    """Return the major version: 18 of ``18.6``, 19 of ``19rc1``."""
    digits = len(version) - len(version.lstrip("0123456789"))
    return int(version[:digits])
