"""Crowds in shared memory and before the cores: subtransactions, and too many sessions."""

from __future__ import annotations

from exam.cells.cores import CORES
from exam.model import Cause, Cell, Proof
from exam.scene import Scene

_CACHES = "'Subtrans', 'subtransaction'"


def _subtransactions(scene: Scene) -> Proof:
    (hits,) = scene.query(f"select sum(blks_hit) from pg_stat_slru where name in ({_CACHES})")[0]
    waiting = scene.share(lambda seen: seen.wait.lower().startswith("subtrans"))
    text = f"pg_stat_slru: {hits:,} look-ups of subtransactions' parents"
    return Proof(text, hits > 100_000, waiting)


def _sessions(scene: Scene) -> Proof:
    wanting = scene.sessions_runnable
    text = f"/proc: {wanting:.0f} sessions want a core and use {scene.cores_used:.2f} of {CORES}"
    return Proof(text, wanting > 10 * CORES, max(0.0, wanting - CORES) / scene.clients)


CELL = Cell(
    "crowds",
    (
        Cause(
            "subtransactions", ("subtransactions",), _subtransactions, scaled=("clients.0.count",)
        ),
        Cause("too-many-connections", ("connections",), _sessions, scaled=("clients.0.count",)),
    ),
)
