"""Hide passwords in the command's arguments, which every user of the machine can read.

A process list shows the arguments from the process's own memory (proc(5), arg_start and arg_end in
stat), so they are blanked there as soon as pgdyno starts.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pgdyno.redact import blank

_ARG_START, _ARG_END = 48, 49
"""Fields of /proc/PID/stat, counted from 1."""


def hide_passwords() -> None:
    """Blank passwords in the process list where /proc allows it; elsewhere they remain visible."""
    try:
        after_name = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        # The fields after the name begin with the third.
        start, end = int(after_name[_ARG_START - 3]), int(after_name[_ARG_END - 3])
    except (OSError, ValueError, IndexError):
        return
    if 0 < start < end:
        for offset, shown in _blanked(ctypes.string_at(start, end - start)):
            ctypes.memmove(start + offset, shown, len(shown))


def _blanked(arguments: bytes) -> list[tuple[int, bytes]]:
    """Return (offset, replacement of the same length) of each argument with a password."""
    changed, offset = [], 0
    for each in arguments.split(b"\0"):
        shown = os.fsencode(blank(os.fsdecode(each)))
        if shown != each:
            changed.append((offset, shown[: len(each)].ljust(len(each))))
        offset += len(each) + 1
    return changed
