"""A server that is away: an action is retried until it is back, and a load ends when no transaction
succeeds, or when the server answers neither load nor probes.

When connections cannot be made because the server is away, the engine itself ends the load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

import psycopg

from pgdyno.errors import PgdynoError, RunError
from pgdyno.record.failures import NO_PRIMARY, PASSING_CODES, nothing_succeeds

if TYPE_CHECKING:
    from pgdyno._engine import Interval


RETURN_S_MAX = 30.0
"""The same time that the load engine waits for a connection."""
_LOOK_EVERY_S = 0.5
_AWAY_CODES = ("no-server", "no-server-behind-pooler", "connection-failed", "server-starting")
"""Errors of connecting that pass when the server comes back."""
_REFUSAL_CODES = ("locked-out", "startup-library")
"""Errors of connecting to a running server: they do not pass."""

T = TypeVar("T")
HOPELESS_S = 5.0
"""Time since the first failure, with no transaction done."""
FAILURES_MIN = 10
SILENT_S = 30.0
"""Time without a transaction done and without an answer to the probes."""


def retry_while_away(
    act: Callable[[], T], wait: Callable[[float], None], *, within_s: float = RETURN_S_MAX
) -> T:
    """Call ``act``, again while the server is away; ``wait`` lets the given seconds pass.

    Raises RunError for a server that does not come back ``within_s``.
    """
    give_up_s: float | None = None
    while True:
        try:
            return act()
        except (PgdynoError, psycopg.Error) as problem:
            if not is_loss(problem):
                raise
            now_s = time.monotonic()
            give_up_s = now_s + within_s if give_up_s is None else give_up_s
            if now_s >= give_up_s:
                raise _gone(problem, within_s) from None
        wait(_LOOK_EVERY_S)


def is_loss(problem: BaseException) -> bool:
    """True if ``problem`` means that the server is away, not that it refuses."""
    if isinstance(problem, RunError):
        return False
    if isinstance(problem, PgdynoError) and problem.code in _REFUSAL_CODES:
        return False
    if isinstance(problem, PgdynoError) and problem.code in _AWAY_CODES:
        return True
    each: BaseException | None = problem
    while each is not None:
        if isinstance(each, psycopg.OperationalError) and _is_connection_state(each.sqlstate):
            return True
        each = each.__cause__ or each.__context__
    return False


def _is_connection_state(sqlstate: str | None) -> bool:
    return sqlstate is None or sqlstate.startswith(("08", "57P0"))


def _gone(problem: BaseException, within_s: float) -> RunError:
    why = problem.message if isinstance(problem, PgdynoError) else str(problem).strip()
    return RunError(
        f"the server went away and did not come back within {within_s:g} s: {why}",
        code="server-gone",
        hint="see the server's log for the reason",
    )


class Standstill:
    """Check of every interval of a load; ``silent_s`` returns the time without a probe's answer.

    ``outage_s`` is the length of an outage that is expected: meanwhile no server accepts writes,
    or none answers. ``expected`` are SQLSTATEs of failures that may be all there is.
    """

    def __init__(
        self,
        silent_s: Callable[[], float],
        *,
        outage_s: float | None = None,
        expected: Collection[str] = (),
    ) -> None:
        self._silent_s = silent_s
        self._silent_s_max = max(SILENT_S, outage_s or 0.0)
        outage = [] if outage_s is None else [NO_PRIMARY]
        self._passing = (*PASSING_CODES, *outage, *expected)
        self.done_s = time.monotonic()
        """Time of the last interval with a transaction done."""
        self._failing_s: float | None = None
        self._connected = False
        self._failures: dict[tuple[str, str, str], int] = {}
        self._failed_groups: set[str] = set()
        self._active_groups: set[str] = set()

    def see(self, interval: Interval) -> None:
        """Count an interval's failures; a transaction done clears all earlier ones."""
        now_s = time.monotonic()
        self._connected = any(row["connections"] for row in interval["groups"])
        if any(row["done"] for row in interval["scripts"]):
            self.done_s, self._failing_s = now_s, None
            self._failures.clear()
            self._failed_groups.clear()
            return
        self._active_groups |= {row["group"] for row in interval["scripts"] if row["intended"]}
        for row in interval["errors"]:
            if row["expected"] or row["retried"] or row["sqlstate"] in self._passing:
                continue
            self._failing_s = self._failing_s or now_s
            self._failed_groups.add(row["group"])
            key = (row["script"], row["sqlstate"], row["message"])
            self._failures[key] = self._failures.get(key, 0) + row["count"]

    def answered_since(self, since_s: float) -> bool:
        """True if a client or a probe has had an answer since that time."""
        return self.done_s >= since_s or time.monotonic() - self._silent_s() >= since_s

    def check(self) -> None:
        """Raise RunError for a load in which nothing succeeds any more."""
        now_s = time.monotonic()
        if self._failing_s is not None and now_s - self._failing_s >= HOPELESS_S:
            failures = sum(self._failures.values())
            if failures >= FAILURES_MIN and self._active_groups <= self._failed_groups:
                raise nothing_succeeds(self._failures, HOPELESS_S)
        if not self._connected:
            return  # The engine ends such a load itself, with the reason.
        if min(now_s - self.done_s, self._silent_s()) >= self._silent_s_max:
            raise RunError(
                f"the server has not answered for {self._silent_s_max:g} s",
                code="server-silent",
                hint="check whether the server is stopped, out of memory or waiting for its disk,"
                " and check the network",
            )
