"""A scene: the server under the case's load, as the harness itself saw it.

The harness samples the sessions of the load and their locks over its own connection, and reads
CPU time from /proc. Nothing here comes from pgdyno's run file.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace

from pgdyno.server import ConnInfo

SAMPLE_S = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSIONS = """
select a.pid, a.state, coalesce(a.wait_event_type, ''), coalesce(a.wait_event, ''),
       coalesce((select l.locktype from pg_locks l where l.pid = a.pid and not l.granted limit 1),
                '')
  from pg_stat_activity a
 where a.application_name ~ '^pgdyno(/|$)' and a.backend_type = 'client backend'
"""
_VACUUMS_ASLEEP = "select count(*) from pg_stat_activity where wait_event = 'VacuumDelay'"


class Seen(Struct, frozen=True):
    """A session of the load in one sample."""

    pid: int
    state: str
    wait_type: str
    wait: str
    lock: str
    """Type of the lock that it waits for in pg_locks, or ''."""

    @property
    def computes(self) -> bool:
        """True if it waits for nothing."""
        return self.state == "active" and not self.wait


@dataclass
class Scene:
    """What a proof may look at: the server, which still runs, and what was seen under load."""

    conninfo: ConnInfo
    fields: Mapping[str, Any]
    data_dir: Path
    wal_dir: Path
    log_path: Path
    clients: int
    injected: Mapping[str, Any]
    """Facts of the injector."""
    postmaster: int
    """PID of the server's postmaster."""
    binaries: Path
    """Directory of the server's binaries."""
    samples: list[list[Seen]] = field(default_factory=list)
    cpu_s: dict[int, float] = field(default_factory=dict)
    """CPU seconds of the sessions by PID, while they were watched."""
    runnable: list[int] = field(default_factory=list)
    """Sessions in state R of /proc in each sample: on a core or in a queue for one. A session that
    got a statement and no core yet still counts as idle in pg_stat_activity."""
    vacuums_asleep: list[int] = field(default_factory=list)
    """Autovacuum workers that sleep for their cost delay, in each sample."""
    seconds: float = 0.0
    """Length of the watch."""

    @classmethod
    def at(cls, conninfo: ConnInfo, other: Scene) -> Scene:
        """Return the same scene, reached in another way."""
        conninfo = replace(conninfo, database=other.conninfo.database)
        return dataclasses.replace(other, conninfo=conninfo)

    def sessions(self, which: Callable[[Seen], bool]) -> float:
        """Mean number of sessions."""
        if not self.samples:
            return 0.0
        return sum(which(seen) for sample in self.samples for seen in sample) / len(self.samples)

    def share(self, which: Callable[[Seen], bool]) -> float:
        """Mean number of sessions as part of the clients."""
        return self.sessions(which) / self.clients

    @property
    def sessions_runnable(self) -> float:
        """Mean number of sessions on a core or in a queue for one."""
        return sum(self.runnable) / len(self.runnable) if self.runnable else 0.0

    @property
    def cores_used(self) -> float:
        """Cores that the sessions used."""
        return sum(self.cpu_s.values()) / self.seconds if self.seconds else 0.0

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the load's database."""
        with self.connect() as connection:
            return connection.execute(sql.encode()).fetchall()

    def query_nothing(self, sql: str) -> None:
        """Execute a statement without rows."""
        with self.connect() as connection:
            connection.execute(sql.encode())

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection of the harness's own."""
        values = self.conninfo.kwargs() | {"application_name": "pgdyno exam"}
        return psycopg.connect(**values, autocommit=True)


@contextmanager
def watched(scene: Scene) -> Iterator[None]:
    """Sample the sessions while the block runs."""
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(scene, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(scene: Scene, ended: threading.Event) -> None:
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    began_s = 0.0
    with scene.connect() as connection:
        while not ended.wait(SAMPLE_S):
            rows = connection.execute(_SESSIONS.encode()).fetchall()
            if not rows:
                continue
            began_s = began_s or time.monotonic()
            scene.samples.append([Seen(*row) for row in rows])
            scene.runnable.append(sum(_wants_core(pid) for pid, *_ in rows))
            asleep = connection.execute(_VACUUMS_ASLEEP.encode()).fetchall()
            scene.vacuums_asleep.append(asleep[0][0])
            for pid, *_ in rows:
                cpu_s = cpu_seconds(pid)
                first.setdefault(pid, cpu_s)
                last[pid] = max(cpu_s, last.get(pid, 0.0))
            scene.seconds = time.monotonic() - began_s
    scene.cpu_s = {pid: last[pid] - first[pid] for pid in last}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process; 0 if it has gone."""
    words = _stat(pid)
    return (int(words[11]) + int(words[12])) / _TICKS if words else 0.0


def _wants_core(pid: int) -> bool:
    return _stat(pid)[:1] == ["R"]


def _stat(pid: int) -> list[str]:
    """Return the words of /proc/PID/stat after the name; none if the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
