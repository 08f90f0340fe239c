"""Statements of the load that leave something in their session which outlasts the transaction.

A pooler that shares sessions among clients gives the next transaction of a client any of them: what
was left in one session is then missing, or belongs to another client. PgBouncer's list of such
features: "SQL feature map for pooling modes" in its manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

from msgspec import Struct

from pgdyno.probe.statement_shapes import statement_shape
from pgdyno.record import StatementTotal

StateKind = Literal[
    "advisory lock", "setting", "listen", "temporary table", "cursor", "prepared statement"
]
TRACKED = frozenset(
    {
        *("client_encoding", "names", "datestyle", "timezone", "time", "application_name"),
        *("standard_conforming_strings", "intervalstyle"),
    }
)
"""Parameters that the server reports to its clients, so that PgBouncer sets them again for each;
``SET NAMES`` and ``SET TIME ZONE`` among them. The setting track_extra_parameters adds others."""
_BEGINS = re.compile(r"(?:begin|start\s+transaction)\b", re.IGNORECASE)
_ENDS = re.compile(r"(?:commit|end|rollback(?!\s+to\b)|abort)\b", re.IGNORECASE)
_DROPPED_AT_COMMIT = re.compile(r"\bon\s+commit\s+drop\b", re.IGNORECASE)
_SET = re.compile(
    r"(?:set\s+(?!local\b|transaction\b|constraints\b)(?:session\s+)?(?P<set>[\w.]+)"
    r"|select\s+set_config\s*\([^,]*,.*,\s*(?:false|off)\s*\))",
    re.IGNORECASE,
)


class _Trace(Struct, frozen=True):
    """Patterns of statements that leave something in their session, and that take it away."""

    kind: StateKind
    makes: re.Pattern[str]
    removes: re.Pattern[str]


def _trace(kind: StateKind, makes: str, removes: str) -> _Trace:
    return _Trace(kind, re.compile(makes, re.IGNORECASE), re.compile(removes, re.IGNORECASE))


_TRACES = (
    _trace(
        "advisory lock",
        r".*\bpg_(?:try_)?advisory_lock(?:_shared)?\s*\(",
        r".*\bpg_advisory_unlock(?:_shared|_all)?\s*\(",
    ),
    _Trace("setting", _SET, re.compile(r"(?:reset|discard)\b", re.IGNORECASE)),
    _trace("listen", r"listen\b", r"(?:unlisten|discard)\b"),
    _trace(
        "temporary table",
        r"(?:create\s+(?:(?:global|local)\s+)?temp(?:orary)?\s+(?:table|view|sequence)\b"
        r"|select\b.*\binto\s+temp(?:orary)?\b)",
        r"(?:drop\s+(?:table|view|sequence)|discard)\b",
    ),
    _trace("cursor", r"declare\b.*\bwith\s+hold\b", r"(?:close|discard)\b"),
    _trace("prepared statement", r"prepare\s+(?!transaction\b)", r"(?:deallocate|discard)\b"),
)


class StateUse(Struct, frozen=True):
    """A statement that leaves something in its session beyond the end of its transaction."""

    kind: StateKind
    statement: str
    """As the script has it."""
    done: int
    """Times that it was executed."""


def session_state(
    statements: Iterable[StatementTotal], tracked: frozenset[str] = TRACKED
) -> list[StateUse]:
    """Return the statements after which something of the session remains when their transaction
    has ended, those executed most first. Settings in ``tracked`` are not among them.

    A statement outside of a transaction block is a transaction of its own. What a function or a
    DO block does is not seen.
    """
    by_script = sorted(statements, key=lambda each: (each.client_group, each.script, each.position))
    found: list[StateUse] = []
    for _, of_one in groupby(by_script, key=lambda each: (each.client_group, each.script)):
        for transaction in _transactions(of_one):
            found += _left(transaction, tracked)
    return sorted(found, key=lambda each: -each.done)


def _transactions(statements: Iterable[StatementTotal]) -> Iterator[list[StatementTotal]]:
    """Yield the statements of each transaction of a script, those of one block together."""
    block: list[StatementTotal] | None = None
    for each in statements:
        text = statement_shape(each.statement)
        if _BEGINS.match(text):
            block = []
        elif _ENDS.match(text):
            if block:
                yield block
            block = None
        elif block is not None:
            block.append(each)
        else:
            yield [each]
    if block:
        yield block


def _left(transaction: list[StatementTotal], tracked: frozenset[str]) -> Iterator[StateUse]:
    """Yield the statements whose trace no later one of the same transaction removes."""
    texts = [statement_shape(each.statement) for each in transaction]
    for place, (each, text) in enumerate(zip(transaction, texts, strict=True)):
        for trace in _TRACES:
            made = trace.makes.match(text)
            if made is None or _is_kept_apart(trace.kind, made, text, tracked):
                continue
            if not any(trace.removes.match(later) for later in [text, *texts[place + 1 :]]):
                yield StateUse(trace.kind, each.statement, each.done)


def _is_kept_apart(
    kind: StateKind, made: re.Match[str], text: str, tracked: frozenset[str]
) -> bool:
    """True if the pooler keeps it for each client, or it ends with the transaction."""
    if kind == "temporary table":
        return _DROPPED_AT_COMMIT.search(text) is not None
    return kind == "setting" and (made["set"] or "").lower() in tracked
