"""What a check is. Each lies in a file of ``checks/``; one is added by adding a file.

A check looks at one thing in a :class:`Scene` and says what it saw. When it looks is told by its
stage: nothing is written into the database before the ledger was read.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

from pgdyno.drill._recovery import Recovery
from pgdyno.drill.model import Check, LedgerCount
from pgdyno.drill.witnesses import Witnesses
from pgdyno.errors import PgdynoError
from pgdyno.record import AckLedger
from pgdyno.server import Cluster, ConnInfo

if TYPE_CHECKING:
    import psycopg

SECONDS_MAX = 600
"""Damaged pages can lead a query, or a program, in circles."""
_TIMEOUTS = {"lock_timeout": "60s", "statement_timeout": f"{SECONDS_MAX}s"}
_NOT_DAMAGE = ("57014", "55P03", "53100", "53200", "53400")
"""A limit of time, a lock that is held, no space, no memory: nothing was seen."""


@dataclass(frozen=True)
class Crashed:
    """A database after a fault: what is left of it, and what was known of it outside."""

    cluster: Cluster
    """Not running, as the fault left it."""
    acks: AckLedger
    cut_ns: int
    """When the fault struck, in monotonic ns."""
    witnesses: Witnesses
    only_before_cut: bool = False
    """The database is as it was at the cut, though the load went on afterwards."""
    foreign_wal: bool = False
    """Its WAL was put there from elsewhere, and may end before what is in its pages."""
    database: str | None = None
    """Where the load ran; ``None``: in the cluster's own database."""

    @property
    def conninfo(self) -> ConnInfo:
        """The way into the database."""
        known = self.cluster.conninfo
        return known if self.database is None else replace(known, database=self.database)


class Stage(IntEnum):
    """When a check looks."""

    PAGES = 1
    """First of all: at the files, before anything reads them through the server."""
    LEDGER = 2
    """Then at the ledger."""
    READING = 3
    """Then at the rest, still without a write."""
    WRITING = 4
    """Then it may write."""
    STOPPED = 5
    """The server was shut down."""


@dataclass
class Scene:
    """What checks look at."""

    crashed: Crashed
    recovery: Recovery
    newest_lsn: int | None = None
    """The highest LSN in the pages before the start, where the WAL is from elsewhere."""
    count: LedgerCount | None = None
    """What the ledger's check found."""
    _conn: psycopg.Connection | None = field(default=None, repr=False)

    @property
    def cluster(self) -> Cluster:
        """The cluster, running but in the last stage."""
        return self.crashed.cluster

    @property
    def conn(self) -> psycopg.Connection:
        """A connection to the database, in autocommit, the same for all checks while it lasts.

        Its commits wait for this server's disk and for no standby.
        """
        import psycopg

        if self._conn is None or self._conn.closed or self._conn.broken:
            settings = {"synchronous_commit": "local", **_TIMEOUTS}
            options = " ".join(f"-c {name}={value}" for name, value in settings.items())
            keys = {**self.crashed.conninfo.kwargs(), "options": options}
            self._conn = psycopg.connect(**keys, autocommit=True)
        return self._conn

    def close(self) -> None:
        """Let the connection go."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None


Seen = tuple[bool | None, str]
"""Whether it passed (``None``: it could not be made), and what was seen."""


@dataclass(frozen=True)
class CheckRule:
    """How one thing is checked."""

    name: str
    stage: Stage
    look: Callable[[Scene], Seen]
    deep: bool = False
    """Reads or writes more than a glance: left out of a verification that is not deep."""


@cache
def check_rules() -> tuple[CheckRule, ...]:
    """Every check in the folder, in the order in which they look."""
    from pgdyno.drill import checks as folder

    found: dict[str, CheckRule] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        rule = importlib.import_module(f"{folder.__name__}.{module.name}").CHECK
        if rule.name in found:
            raise ValueError(f'two checks are called "{rule.name}"')
        found[rule.name] = rule
    return tuple(sorted(found.values(), key=lambda rule: (rule.stage, rule.deep, rule.name)))


def is_damage(error: psycopg.Error) -> bool:
    """Whether a statement that failed has seen anything, or was only kept from looking."""
    return error.sqlstate not in _NOT_DAMAGE


def make(rule: CheckRule, scene: Scene) -> Check:
    """Let a check look; what the server cannot do for it is a finding of its own."""
    import psycopg

    began = time.monotonic()
    try:
        passed, detail = rule.look(scene)
    except psycopg.Error as error:
        said = (error.diag.message_primary or str(error)).strip()
        passed, detail = (False if is_damage(error) else None), said
    except PgdynoError as problem:
        passed, detail = False, problem.message
    return Check(rule.name, passed, detail, time.monotonic() - began)


@contextmanager
def closing(scene: Scene) -> Iterator[None]:
    """Within the block the scene may be looked at."""
    try:
        yield
    finally:
        scene.close()
