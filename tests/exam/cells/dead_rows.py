"""Dead rows: kept by a transaction, left by a throttled autovacuum, and removed in time."""

from __future__ import annotations

import statistics

from exam.model import BLAMES_NOTHING, Cause, Cell, Proof
from exam.scene import Scene

_QUERY = "select count(*) from jobs where tries > 100"


def _cost_of_dead_rows(scene: Scene) -> tuple[str, float]:
    """Return what the load's query costs before and after a VACUUM FULL, and the part of
    its time that this saves."""
    before_ms = _execution_ms(scene)
    scene.query_nothing("vacuum full jobs")
    after_ms = _execution_ms(scene)
    text = f"the query takes {before_ms:.2f} ms, and {after_ms:.2f} ms after a VACUUM FULL"
    return text, max(0.0, 1 - after_ms / before_ms)


def _execution_ms(scene: Scene) -> float:
    lines = [
        row[0]
        for _ in range(5)
        for row in scene.query(f"explain (analyze, timing off) {_QUERY}")
        if row[0].startswith("Execution Time:")
    ]
    return statistics.median(float(line.split()[2]) for line in lines)


def _pinned(scene: Scene) -> Proof:
    # The report has ended with the load; the rows that it kept are still there.
    holders = scene.sessions(lambda seen: seen.state == "idle in transaction")
    text, owned = _cost_of_dead_rows(scene)
    return Proof(f"a session stayed in its transaction; {text}", holders >= 0.5, owned)


def _throttled(scene: Scene) -> Proof:
    asleep = sum(map(bool, scene.vacuums_asleep)) / max(1, len(scene.vacuums_asleep))
    for (pid,) in scene.query("select pid from pg_stat_progress_vacuum"):
        scene.query(f"select pg_terminate_backend({pid})")
    text, owned = _cost_of_dead_rows(scene)
    return Proof(f"an autovacuum slept in {asleep:.0%} of the samples; {text}", asleep > 0.3, owned)


def _kept_up(scene: Scene) -> Proof:
    (pages,) = scene.query("select pg_relation_size('jobs') / 8192")[0]
    text = f"the table has {pages} pages; sessions use {scene.cores_used:.2f} cores"
    return Proof(text, pages < 200)


CELL = Cell(
    "dead-rows",
    (
        Cause("xmin-pinned", ("xmin-pinned",), _pinned),
        Cause("vacuum-throttled", ("autovacuum-slow",), _throttled),
        Cause("healthy-churn", BLAMES_NOTHING, _kept_up, healthy=True),
    ),
)
