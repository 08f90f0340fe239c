"""Poolers that keep a session for each client, and those that give it to others in between."""

from __future__ import annotations

from pgdyno.facts.session_state import TRACKED, StateUse, session_state
from pgdyno.facts.sessions import sessions
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Skip

LEFT_OUT_SHARE = 0.2
"""Clients left out, as a part of all, above which the pooler keeps sessions for the others."""


def clients_left_out(s: Situation) -> float:
    """Return the clients that had a transaction under way and none done, on average.

    All clients of a closed loop that does not rest are at work, or connect for what they do next;
    what Little's law does not see of them never came to an end. 0 where the pooler is known to keep
    a session for no client: then they wait for something else, which the sessions show.
    """
    if s.pooler is not None and s.pooler.shares:
        return 0.0
    resting = any(group.think_ms for group in s.groups)
    if s.has_open_loop or resting or s.sessions_max < sum(g.clients for g in s.groups):
        return 0.0
    return max(0.0, s.sessions_max - s.in_service - s.on_the_way - _unaccepted(s))


def _unaccepted(s: Situation) -> float:
    """Return the clients that the pooler has not accepted ("pooler client limit")."""
    try:
        return float(s.pooler_queues.unaccepted.mean()) if s.pooler is not None else 0.0
    except Skip:
        return 0.0


def shares_sessions(s: Situation) -> bool:
    """True if a pooler gives clients a session for a transaction, or a statement, at a time.

    Of the user's own pooler that is seen by its sessions: they are fewer than connections, and no
    clients wait for one that others keep. Raises Skip if that was not recorded.
    """
    if s.pooler is not None:
        return s.pooler.shares
    if s.is_http or not s.is_pooled:
        return False
    seen = sessions(s)
    return seen.shared and clients_left_out(s) < LEFT_OUT_SHARE * seen.connections


def state_left(s: Situation) -> list[StateUse]:
    """Return the statements of the load after which state of their session remains that a pooler
    does not keep for each client."""
    extra = "" if s.pooler is None else s.pooler.settings.get("track_extra_parameters", "")
    tracked = frozenset(name.strip().lower() for name in extra.split(","))
    return [] if s.is_http else session_state(s.statements, TRACKED | tracked)


def loses_advisory_locks(s: Situation) -> bool:
    """True if the load takes advisory locks of sessions that it shares; False if not known."""
    try:
        shared = shares_sessions(s)
    except Skip:
        return False
    return shared and any(use.kind == "advisory lock" for use in state_left(s))
