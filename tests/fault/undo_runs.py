"""Runs that change the settings of a user's server, and what is seen of that server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.settings._undo import UndoFile, undo_files

PATIENCE_S = 60.0
Begin = Callable[..., "subprocess.Popen[str]"]


def execute(conninfo: ConnInfo, statement: str) -> object:
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as conn:
        cursor = conn.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def state(cluster: Cluster) -> tuple[list[str], list[object]]:
    """Return ALTER SYSTEM's value, and the value in a new connection."""
    lines = (cluster.data_dir / "postgresql.auto.conf").read_text().splitlines()
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        shown = conn.execute("select name, setting, source from pg_settings order by name")
        return sorted(lines), shown.fetchall()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def is_as(cluster: Cluster, before: object) -> Callable[[], bool]:
    def look() -> bool:
        try:
            return state(cluster) == before and not list(undo_files())
        except psycopg.Error:
            return False

    return look


def guardian_of(run: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    (guardian,) = map(int, children)
    return guardian


def is_locked(path: Path) -> bool:
    file = UndoFile.try_take(path)
    if file is not None:
        file.close()
    return file is None


def end(run: subprocess.Popen[str], how: str) -> str:
    """End a run; return what it says at its end."""
    if how == "kill":
        run.kill()
        run.wait()
        return ""
    return run.communicate("\n", timeout=60)[0]
