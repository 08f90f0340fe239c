"""What a server, or a program beside it, says in its log: the end of it, where it says too much.

The log's file is ours, but how much goes into it is the program's.
"""

from __future__ import annotations

from pathlib import Path

_BYTES_MAX = 64 << 20


def log_text(path: Path, start: int = 0, *, bytes_max: int = _BYTES_MAX) -> str:
    """What the log has from ``start`` on; only its last ``bytes_max`` if that is more."""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - bytes_max))
        return log.read(bytes_max).decode(errors="replace")


def last_line(path: Path) -> str:
    """The last line of a log."""
    lines = log_text(path, bytes_max=1 << 20).strip().splitlines()
    return lines[-1] if lines else "it logged nothing"
