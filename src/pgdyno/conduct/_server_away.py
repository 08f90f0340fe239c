"""Retries an action on a server that is away, until the server is back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from pgdyno.errors import PgdynoError, RunError

RETURN_S_MAX = 30.0
"""The same time that the load engine waits for a connection."""
_LOOK_EVERY_S = 0.5
_AWAY_CODES = ("no-server", "no-server-behind-pooler", "connection-failed", "server-starting")
"""Errors of connecting that pass when the server comes back."""
_REFUSAL_CODES = ("locked-out", "startup-library")
"""Errors of connecting to a running server: they do not pass."""

T = TypeVar("T")


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
