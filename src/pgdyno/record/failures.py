"""Failures told: which of them are answers of the server, which is the commonest, and how a load of
which nothing succeeds ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pgdyno.errors import RunError
from pgdyno.record._reader import RunFile
from pgdyno.record._rows import ErrorTotal

PASSING_CODES = (
    *("connect-failed", "connect-timeout", "connection-lost", "53300", "08P01", "08006", "08003"),
    *("57P01", "57P02", "57P03", "pool-timeout"),
)
"""What ends when the server, or a pooler before it, is back; it is waited for."""
_NO_ANSWERS = ("08", "57P")
"""Classes of SQLSTATEs by which a connection ends, or that a server says that is not at work."""
_HINTS = {
    "25006": "a standby takes no writes: connect to the primary. On a primary,"
    " default_transaction_read_only forbids them",
}

Kind = tuple[str, str, str]
"""Script ('' for connecting), SQLSTATE, message."""


def is_answer(sqlstate: str) -> bool:
    """Whether it is an error by which a server at work has answered."""
    return len(sqlstate) == 5 and not sqlstate.startswith(_NO_ANSWERS)


def commonest(errors: Iterable[ErrorTotal]) -> str:
    """The SQLSTATE and message of the commonest failure; '' without one."""
    kinds = Counter[Kind]()
    for error in errors:
        if not (error.expected or error.retried):
            kinds["", error.sqlstate, error.message] += error.count
    return "{1} {2}".format(*kinds.most_common(1)[0][0]) if kinds else ""


def nothing_succeeds(kinds: Mapping[Kind, int], seconds: float) -> RunError:
    """What ends a load of which all fails."""
    failures = sum(kinds.values())
    (script, sqlstate, message), count = max(kinds.items(), key=lambda item: item[1])
    where = f"script {script}" if script else "connecting"
    return RunError(
        f"no transaction succeeds: {failures:,} failures in {max(seconds, 0.1):.1f} s, {count:,} of"
        f" them in {where}: {sqlstate} {message}",
        code="nothing-succeeds",
        hint=_HINTS.get(sqlstate),
    )


def failed_wholly(run: RunFile) -> RunError | None:
    """The error of a run of which nothing succeeded although something was tried; else None."""
    ledger = run.ledger()
    if ledger.done:
        return None
    kinds = Counter[Kind]()
    for error in run.errors():
        if not (error.expected or error.retried):
            kinds[error.script, error.sqlstate, error.message] += error.count
    lasting = any(code not in PASSING_CODES for _, code, _ in kinds)
    if not kinds or not (ledger.failed or lasting):
        return None
    return nothing_succeeds(kinds, run.seconds())
