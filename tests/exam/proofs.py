"""Proofs that several causes share. Each reads what no signature reads."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from exam.model import Proof
from exam.scene import Scene, Seen

_TRIES = 9


def flush_ms(directory: Path) -> float:
    """Return the median duration of flushing one page of a new file in ``directory``."""
    path = directory / "exam-flush"
    took = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for _ in range(_TRIES):
            os.pwrite(descriptor, os.urandom(8192), 0)
            began_s = time.monotonic()
            os.fdatasync(descriptor)
            took.append((time.monotonic() - began_s) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(took)


def statement_ms(scene: Scene, sql: str, *first: str) -> float:
    """Return the median duration of a statement of the harness's own, after ``first``."""
    took = []
    with scene.connect() as connection:
        for each in first:
            connection.execute(each.encode())
        for _ in range(_TRIES):
            began_s = time.monotonic()
            connection.execute(sql.encode())
            took.append((time.monotonic() - began_s) * 1000)
    return statistics.median(took)


COMMIT = "select pg_logical_emit_message(true, 'exam', 'one commit')"


def commit_ms(scene: Scene, *settings: str) -> float:
    """Return the median duration of a commit of the harness's own under ``settings``."""
    return statement_ms(scene, COMMIT, *(f"set {each}" for each in settings))


def waits_for_lock(*types: str) -> Callable[[Seen], bool]:
    """Return a test for sessions that wait in pg_locks for a lock of these types."""
    return lambda seen: seen.lock in types


def lock_queue(*types: str) -> Callable[[Scene], Proof]:
    """Return the proof that sessions queue in pg_locks for locks of these types."""

    def prove(scene: Scene) -> Proof:
        waiting = scene.sessions(waits_for_lock(*types))
        text = f"pg_locks: {waiting:.1f} sessions wait for {'/'.join(types)}"
        return Proof(text, waiting >= 1, waiting / scene.clients)

    return prove


def nothing_injected(scene: Scene) -> Proof:
    """Prove a healthy load: some cores are idle, and no session waits in pg_locks for long."""
    queueing = scene.share(lambda seen: bool(seen.lock))
    cores = os.cpu_count() or 1
    text = f"sessions use {scene.cores_used:.2f} of {cores} cores, {queueing:.2f} wait in pg_locks"
    return Proof(text, scene.cores_used < 0.8 * cores and queueing < 0.1)
