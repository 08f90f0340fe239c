"""The log of a server or of another guarded process; only the end of a very long one."""

from __future__ import annotations

from pathlib import Path

_BYTES_MAX = 64 << 20


def log_text(path: Path, start: int = 0, *, bytes_max: int = _BYTES_MAX) -> str:
    """Return the log's text from ``start`` on, limited to its last ``bytes_max`` bytes."""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - bytes_max))
        return log.read(bytes_max).decode(errors="replace")


def last_line(path: Path) -> str:
    """Return the last line of a log."""
    lines = log_text(path, bytes_max=1 << 20).strip().splitlines()
    return lines[-1] if lines else "it logged nothing"
