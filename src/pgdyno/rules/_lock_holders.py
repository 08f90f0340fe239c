"""Holders of locks that are no sessions of the load, and holders that could not be seen.

A holder is not of the load if its statement is none of the load's, values, parameters and variables
aside. BEGIN, COMMIT and the like are everyone's. A role without pg_monitor does not see the
statements of other roles' sessions: who they are is then not known.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pgdyno.facts.situation import Situation
from pgdyno.facts.statement_budgets import shape
from pgdyno.rules._queues import Queues, commonest, quoted

MOST = 0.5
"""Part of those waiting above which the holder is said not to be of the load, or not known."""
_SPACE = re.compile(r"\s+")
_OF_ANYONE = frozenset({"begin", "start", "commit", "end", "rollback", "abort", "prepare"})
FOREIGN_ADVICE = (
    "end that session's transaction, or make it shorter: the load itself is not at fault"
)


class LockHolder(Struct, frozen=True):
    """The session that most of those in some queues wait for."""

    statement: str | None
    """Of a session that is not of the load; None if it is the load's, or not known."""
    hidden: bool
    """True if it could not be seen."""

    @property
    def words(self) -> str:
        """Clause for a sentence; '' if the holder is a session of the load."""
        if self.hidden:
            return "; who holds them is not known (pg_monitor would show it)"
        if self.statement is None:
            return ""
        return f"; who holds them is not a session of this load: {quoted(self.statement)}"


def holder_of(s: Situation, found: Queues) -> LockHolder:
    """Return the holder behind which most sessions of ``found`` wait."""
    own = {_shape(each.statement) for each in s.statements}
    # All sessions are the load, where it is that of others.
    looks = found.looks if own and not s.is_observed else []
    waiting = sum(look.waiting for look in looks)
    hidden = sum(look.waiting for look in looks if not look.blocker and not look.blocker_state)
    others = [look for look in looks if look.blocker and not _is_own(look.blocker, own)]
    foreign = sum(look.waiting for look in others)
    if foreign > MOST * waiting:
        return LockHolder(commonest((look.blocker, look.waiting) for look in others), hidden=False)
    return LockHolder(None, hidden=hidden > MOST * waiting)


def _is_own(blocker: str, own: set[str]) -> bool:
    """True if a statement, which the server may have cut off at its end, is one of the load's."""
    if blocker.strip("; ").partition(" ")[0].lower() in _OF_ANYONE:
        return True
    seen = _shape(blocker)
    return any(each.startswith(seen) or seen.startswith(each) for each in own)


def _shape(statement: str) -> str:
    """Return the shape of a statement without spaces."""
    return _SPACE.sub("", shape(statement))
