"""What servers and poolers of pgdyno leave behind: their directories, and processes in them."""

from __future__ import annotations

from collections.abc import Collection
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
    """Processes with a path in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if str(path).encode() in command:
            found.append(str(entry.parent))
    return found
