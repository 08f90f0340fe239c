"""What servers and poolers of pgdyno leave behind: their directories, and processes in them; and
what is inherited from where the tests were started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

from pgdyno.server.directories import clusters_dir


def directories(home: Path | None = None) -> set[str]:
    """Names of the directories that are there."""
    return {path.name for path in (home or clusters_dir()).iterdir() if path.is_dir()}


def left_over(before: Collection[str] = (), home: Path | None = None) -> list[str]:
    """Directories that were not there before, and processes that were started in them."""
    names = sorted(directories(home).difference(before))
    return [*names, *(process for name in names for process in running_in(f"clusters/{name}/"))]


def running_in(path: str | Path) -> list[str]:
    """Processes with a path in their command line, or in whose directory they are."""
    return [f"/proc/{pid}" for pid in sorted(processes_of(path))]


def processes_of(path: str | Path) -> set[int]:
    """Their process IDs, without that of the test."""
    wanted = os.fsencode(path)
    found = {pid for pid, command, _ in _processes() if wanted in command}
    return (found | processes_in(path)) - {os.getpid()}


def processes_in(path: str | Path, program: str = "") -> set[int]:
    """Processes in whose directory, or below, they are; those of a program alone."""
    return {
        pid
        for pid, command, directory in _processes()
        if Path(directory).is_relative_to(path) and os.fsencode(program) in command
    }


def _processes() -> Iterator[tuple[int, bytes, str]]:
    """Process ID, command line and directory of each."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            directory = str((entry / "cwd").readlink())
            yield int(entry.name), (entry / "cmdline").read_bytes(), directory


def children_of(pid: int) -> list[int]:
    """Processes that a process has started, and not yet collected."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in threads for child in each.read_text().split()]


_IMAGE_BYTES_MIN = 8 << 20
_KEPT = (".db", ".db-wal", ".log", ".json", ".html")
"""What a test that failed is understood by."""


def remove_clusters(folder: Path) -> None:
    """Remove data directories and images of disks, without the logs and run files among them."""
    for version in folder.rglob("PG_VERSION"):
        # Each database has such a file too, below the directory of the cluster.
        if (version.parent / "global").is_dir():
            for part in version.parent.iterdir():
                if part.suffix not in _KEPT and part.name != "log":
                    shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink()
    for path in folder.rglob("*"):
        plain = path.is_file() and not path.is_symlink() and path.suffix not in _KEPT
        if plain and path.stat().st_size >= _IMAGE_BYTES_MIN:
            path.unlink()


def heed_stop_signals() -> None:
    """Undo that stop signals are ignored, as in what a shell starts in the background.

    The commands that tests start would inherit it.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
