"""The versions of PostgreSQL that pgdyno supports."""

from __future__ import annotations

SUPPORTED_MAJORS = range(14, 19)


def newer_note(version: str, version_num: int) -> str | None:
    """Return a caution for a server that is newer than supported, else ``None``."""
    if version_num // 10000 <= SUPPORTED_MAJORS[-1]:
        return None
    return (
        f"PostgreSQL {version} is newer than this pgdyno supports"
        f" ({SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]}): some probes may be missing"
    )
