"""The files of a local server's own log, and the space that they take.

With its logging collector, a server names its log files in ``current_logfiles`` of the data
directory (PostgreSQL's documentation, "Logging collector", ``pg_current_logfile``). Without it, the
log is what the postmaster's standard error is connected to, which only root and the server's
account may see.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from pgdyno.probe._host import PROC

_CURRENT = "current_logfiles"
_PID_FILE = "postmaster.pid"
_STANDARD_ERROR = 2


def log_bytes_by_device(data_dir: Path) -> dict[int, int]:
    """Return the bytes of the server's log by the device of its file system; empty if the log is no
    file, or not to be seen."""
    sizes: dict[int, int] = {}
    for each in _stats(data_dir):
        if stat.S_ISREG(each.st_mode):
            sizes[each.st_dev] = sizes.get(each.st_dev, 0) + each.st_size
    return sizes


def _stats(data_dir: Path) -> Iterable[os.stat_result]:
    try:
        collected = list(_collected(data_dir))
        return collected or list(_standard_error(data_dir))
    except OSError:
        return ()


def _collected(data_dir: Path) -> Iterator[os.stat_result]:
    """Yield the files of the log's directories that belong to the account that writes it: also
    those of before a rotation, and nothing of other programs that log there."""
    try:
        lines = (data_dir / _CURRENT).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    files = [data_dir / path for _, _, path in (line.partition(" ") for line in lines) if path]
    for directory in {each.parent for each in files}:
        owners = {each.stat().st_uid for each in files if each.parent == directory}
        with os.scandir(directory) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_uid in owners:
                    yield found


def _standard_error(data_dir: Path) -> Iterator[os.stat_result]:
    """Yield the file that the postmaster writes to, if it is a process of this machine: it works in
    its data directory."""
    pid = (data_dir / _PID_FILE).read_text().partition("\n")[0].strip()
    process = PROC / pid
    if pid.isdecimal() and (process / "cwd").samefile(data_dir):
        yield (process / "fd" / str(_STANDARD_ERROR)).stat()
