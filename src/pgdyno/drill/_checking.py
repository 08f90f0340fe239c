"""The framework of checks. Each check is a file in ``checks/``; to add one, add a file.

A check examines one thing in a :class:`CheckContext` and describes its result. Its stage decides
when it runs: nothing is written to the database before the ledger has been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.drill._recovery import Recovery
from pgdyno.drill.witnesses import Witnesses
from pgdyno.errors import PgdynoError
from pgdyno.record import AckLedger
from pgdyno.record.cut import Check, LedgerCount
from pgdyno.registry import by_name, held_by
from pgdyno.server import Cluster, ConnInfo

if TYPE_CHECKING:
    import psycopg

    from pgdyno.server.connecting.control import Control

SECONDS_MAX = 600
"""Time limit of a query or a client application, which damaged pages can send into a loop."""
_TIMEOUTS = {"lock_timeout": "60s", "statement_timeout": f"{SECONDS_MAX}s"}
_NOT_DAMAGE = ("57014", "55P03", "53100", "53200", "53400")
"""SQLSTATEs of timeouts, held locks, full disks and lack of memory: the check was prevented."""


class Crashed(Struct, frozen=True):
    """A database after a fault, and the facts known from outside it."""

    cluster: Cluster
    """Not running, as the fault left it."""
    acks: AckLedger
    cut_ns: int
    """Time of the fault, in monotonic ns."""
    witnesses: Witnesses
    only_before_cut: bool = False
    """True if the load went on after the cut, but the database is in its state at the cut."""
    moved_ns: int | None = None
    """Time at which the load had moved to this server from another; None: it did not."""
    foreign_wal: bool = False
    """True if the WAL was copied from elsewhere, so that it may end before the pages' changes."""
    database: str | None = None
    """Database of the load; ``None``: the cluster's own database."""

    @property
    def conninfo(self) -> ConnInfo:
        """Connection parameters of the load's database."""
        known = self.cluster.conninfo
        return known if self.database is None else replace(known, database=self.database)


class Stage(IntEnum):
    """The order in which checks run."""

    PAGES = 1
    """First: the files, before the server reads them."""
    LEDGER = 2
    """The ack ledger."""
    READING = 3
    """Everything else that only reads."""
    WRITING = 4
    """Checks that write."""
    STOPPED = 5
    """After the server has been shut down."""


@dataclass
class CheckContext:
    """The database that checks examine."""

    crashed: Crashed
    recovery: Recovery
    newest_lsn: int | None = None
    """The highest LSN in the pages before the start, if the WAL is from elsewhere."""
    count: LedgerCount | None = None
    """The result of the ledger's check."""
    _conn: Control | None = field(default=None, repr=False)

    @property
    def cluster(self) -> Cluster:
        """The cluster, running except in the last stage."""
        return self.crashed.cluster

    @property
    def conn(self) -> Control:
        """A connection in autocommit mode, shared by all checks and reopened if it breaks.

        Its commits wait for this server's disk and for no standby.
        """
        from pgdyno.server.connecting.control import open_control

        if self._conn is None or self._conn.closed or self._conn.broken:
            settings = {"synchronous_commit": "local", **_TIMEOUTS}
            options = " ".join(f"-c {name}={value}" for name, value in settings.items())
            keys = {**self.crashed.conninfo.kwargs(), "options": options}
            self._conn = open_control(keys)
        return self._conn

    def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None


CheckResult = tuple[bool | None, str]
"""Passed or not (``None``: the check could not be made), and a description."""


class CheckRule(Struct, frozen=True):
    """A kind of check."""

    name: str
    stage: Stage
    run: Callable[[CheckContext], CheckResult]
    deep: bool = False
    """True if it reads or writes much; such checks run only in a deep verification."""


@cache
def check_rules() -> tuple[CheckRule, ...]:
    """Return all checks of the package, in the order in which they run."""
    from pgdyno.drill import checks as package

    found = by_name(held_by(package, CheckRule), "checks", lambda each: each.name)
    return tuple(sorted(found.values(), key=lambda rule: (rule.stage, rule.deep, rule.name)))


def is_damage(error: psycopg.Error) -> bool:
    """True if a failed statement shows damage; False if it was only prevented from reading."""
    return error.sqlstate not in _NOT_DAMAGE


def run_check(rule: CheckRule, context: CheckContext) -> Check:
    """Run a check; an error of the server during it counts as a failed check."""
    import psycopg

    began = time.monotonic()
    try:
        passed, detail = rule.run(context)
    except psycopg.Error as error:
        message = (error.diag.message_primary or str(error)).strip()
        passed, detail = (False if is_damage(error) else None), message
    except PgdynoError as problem:
        passed, detail = False, problem.message
    return Check(name=rule.name, passed=passed, detail=detail, seconds=time.monotonic() - began)
