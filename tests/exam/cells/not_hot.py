"""Updates that are not HOT: because the page has no space, or because of an indexed column."""

from __future__ import annotations

import re
import subprocess

from exam.model import Cause, Cell, Proof
from exam.scene import Scene


def _not_hot(scene: Scene) -> Proof:
    """Count the WAL records of updates, as pg_waldump does."""
    names = sorted(path.name for path in scene.wal_dir.iterdir() if len(path.name) == 24)
    command = [scene.binaries / "pg_waldump", "--stats=record", "-p", scene.wal_dir, names[0]]
    dump = subprocess.run([*command, names[-1]], capture_output=True, text=True, check=False)
    hot, cold = (_records(dump.stdout, name) for name in ("Heap/HOT_UPDATE", "Heap/UPDATE"))
    text = f"pg_waldump: {cold:,} records of updates that are not HOT, {hot:,} of those that are"
    busy = scene.sessions_runnable / scene.clients
    return Proof(text, cold > 1000 and cold > 0.7 * (cold + hot), busy)


def _records(stats: str, name: str) -> int:
    found = re.findall(rf"^{name}(?:\+INIT)?\s+(\d+)", stats, re.MULTILINE)
    return sum(map(int, found))


CELL = Cell(
    "not-hot",
    (
        Cause("full-page", ("full-pages",), _not_hot),
        Cause("indexed-column", ("indexed-updates",), _not_hot),
    ),
)
