"""Failures: answers of the server, the most frequent one, the error of a load in which nothing
succeeds, and the text of an error in the format of psql."""

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
"""Failures that end when the server, or a pooler in front of it, is available again."""
NO_PRIMARY = "no-suitable-server"
"""Failure while a standby is being promoted: none of several servers accepts writes."""
OUT_OF_IDS = "54000"
"""SQLSTATE of transactions that need an ID from a server that stopped assigning them."""
_NO_ANSWERS = ("08", "57P")
"""Classes of SQLSTATEs of lost connections, or of a server that is not running normally."""
_HINTS = {
    "25006": "a standby is read-only: connect to the primary. On a primary, turn off"
    " default_transaction_read_only",
}

Kind = tuple[str, str, str]
"""Script ('' for connecting), SQLSTATE, message."""


def is_answer(sqlstate: str) -> bool:
    """Return whether the error is an answer of a running server."""
    return len(sqlstate) == 5 and not sqlstate.startswith(_NO_ANSWERS)


def is_out_of_ids(error: ErrorTotal) -> bool:
    """Return whether a transaction was refused an ID. Other limits have the same SQLSTATE."""
    return error.sqlstate == OUT_OF_IDS and "is not accepting commands" in error.message


def commonest(errors: Iterable[ErrorTotal]) -> str:
    """Return SQLSTATE and message of the most frequent failure; '' if there is none."""
    kinds = Counter[Kind]()
    for error in errors:
        if not (error.expected or error.retried):
            kinds["", error.sqlstate, error.message] += error.count
    return "{1} {2}".format(*kinds.most_common(1)[0][0]) if kinds else ""


def nothing_succeeds(kinds: Mapping[Kind, int], seconds: float) -> RunError:
    """Return the error that ends a load in which all transactions fail."""
    failures = sum(kinds.values())
    (script, sqlstate, message), count = max(kinds.items(), key=lambda item: item[1])
    where = f"script {script}" if script else "connecting"
    return RunError(
        f"no transaction succeeds: {failures:,} failures in {max(seconds, 0.1):.1f} s, {count:,} of"
        f" them in {where}: {sqlstate} {message}",
        code="nothing-succeeds",
        hint=_HINTS.get(sqlstate),
    )


def complete_failure(run: RunFile) -> RunError | None:
    """Return the error of a run in which transactions were tried and none succeeded, or None."""
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


def position_of(error: ErrorTotal) -> str:
    """Return the first client with the error, and the position in its script if there is one."""
    known = [
        f"client {error.client}" if error.client is not None else "",
        f"group {error.client_group}" if error.client_group != "clients" else "",
        f"{error.file or error.script} line {error.line}" if error.line else error.script,
    ]
    return ", ".join(part for part in known if part)


def error_lines(error: ErrorTotal) -> list[str]:
    """Return the lines of an error, the first with its code and message."""
    word = "" if error.sqlstate.islower() else "ERROR "
    head = f"{word}{error.sqlstate}: {error.message}"
    where = position_of(error)
    at = [f"at {where}: {error.statement}" if error.statement else f"at {where}"] if where else []
    return [head, *(f"  {line}" for line in [*at, *server_details(error)])]


def server_details(error: ErrorTotal) -> list[str]:
    """Return the lines of the server's details other than its message, and of pgdyno's advice."""
    named = {"DETAIL": error.detail, "HINT": error.hint, "CONTEXT": error.context}
    lines = error.excerpt.splitlines()
    for name, text in named.items():
        lines += [f"{name}:  {line}" if not number else f"  {line}"
                  for number, line in enumerate(text.splitlines())]  # fmt: skip
    return [*lines, *([f"pgdyno:  {error.advice}"] if error.advice else [])]
