"""Runs that change the settings of a user's server, and what is seen of that server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg

from patience import PATIENCE_S
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.settings._undo import UndoFile, undo_files

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


def is_as(cluster: Cluster, before: object) -> Callable[[], bool]:
    def look() -> bool:
        if next(undo_files(), None) is not None:  # Costs nothing, unlike a connection.
            return False
        try:
            return state(cluster) == before
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
    return run.communicate("\n", timeout=PATIENCE_S)[0]
