"""State that a client leaves in its session, where a pooler gives the session to others."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.facts.budget import Part
from pgdyno.facts.session_state import StateKind, StateUse
from pgdyno.facts.situation import Situation
from pgdyno.numbers import listed
from pgdyno.record.finding import Evidence
from pgdyno.rules._pool_sessions import shares_sessions, state_left
from pgdyno.rules._queues import MOST, WAITING_SHARE, quoted, seen_queues
from pgdyno.rules.rule import Cleared, Found, rule

_IN_WORDS: dict[StateKind, str] = {
    "advisory lock": "advisory locks of sessions",
    "setting": "settings of sessions",
    "listen": "LISTEN",
    "temporary table": "temporary tables",
    "cursor": "cursors WITH HOLD",
    "prepared statement": "PREPARE",
}
_ADVICE: dict[StateKind, str] = {
    "advisory lock": (
        "take advisory locks with pg_advisory_xact_lock (pg_try_advisory_xact_lock) in the"
        " transaction that they protect, at whose end they are released"
    ),
    "setting": (
        "use SET LOCAL in the transaction, or ALTER ROLE … SET, or the pooler's own"
        " (connect_query, track_extra_parameters of PgBouncer)"
    ),
    "listen": "listen through a connection that does not go through this pool",
    "temporary table": "create temporary tables ON COMMIT DROP in the transaction that uses them",
    "cursor": "read a cursor to its end in the transaction that declares it",
    "prepared statement": (
        "prepare with the protocol (parse messages), which PgBouncer keeps track of"
        " (max_prepared_statements)"
    ),
}
_OTHERWISE = (
    "what needs a session of its own goes around the pooler, or through a pool in session mode"
)


@rule(
    "session-state",
    of_clients=True,
    false_positives=(
        "state that every transaction sets again; functions and DO blocks, whose statements are not"
        " seen"
    ),
)
def session_state(s: Situation) -> Found | Cleared:
    """State of sessions behind a pooler that shares sessions: what one transaction leaves in its
    session is missing in the client's next one, and found by other clients.

    In PgBouncer's transaction mode a client has a session only until its transaction ends. An
    advisory lock that pg_advisory_lock took stays with the session: the client's pg_advisory_unlock
    may be executed in another one, where it does nothing (a WARNING), and all that want the lock
    wait until the session ends. Settings of SET, LISTEN, temporary tables, cursors WITH HOLD and
    statements of PREPARE are left behind in the same way.

    Trigger: the pooler that pgdyno started is in transaction or statement mode, or the sessions of
    the user's own are fewer than the clients' connections and none is kept by one client; and a
    statement of the load leaves something behind beyond its transaction, by its text. Threshold:
    none.

    Where at least ``WAITING_SHARE`` of the sessions in a transaction wait for advisory locks, the
    load is about to fail: nobody can release these. The waits are its share; and the time in front
    of the pooler, where they are at least half of these sessions, which other clients then cannot
    have. Session-level locks are left behind where the holder of one that others wait for is
    idle, outside of a transaction.

    Parameters that the server reports PgBouncer sets again for each client: TimeZone, DateStyle and
    the like, and those in its track_extra_parameters.
    """
    if s.is_http or not s.is_pooled:
        none = s.evidence("poolers between clients and server", 0, "count")
        return Cleared("no pooler shares the sessions of the clients", [none])
    uses = state_left(s)
    shown = [
        s.evidence(f"statement that leaves something behind: {use.kind}", use.statement, "")
        for use in _one_of_each(uses)
    ]
    if not uses:
        none = s.evidence("statements that leave something in their session", 0, "count")
        return Cleared("no statement of the load leaves something in its session", [none])
    if not shares_sessions(s):
        return Cleared("each client keeps its session while it is connected", shown)
    kinds = list(dict.fromkeys(use.kind for use in uses))
    parts = _parts(s) if "advisory lock" in kinds else ()
    return Found(
        sentence=_sentence(s, uses, kinds),
        parts=parts,
        removable_share=1.0 if parts else 0.0,
        severity="will fail" if parts else "costs",
        confidence=0.9,
        evidence=[*shown, *_left_behind(s, kinds)],
        advice=f"{'; '.join(_ADVICE[kind] for kind in kinds)}; {_OTHERWISE}",
    )


def _one_of_each(uses: Sequence[StateUse]) -> list[StateUse]:
    return list({use.kind: use for use in reversed(uses)}.values())[::-1]


def _sentence(s: Situation, uses: Sequence[StateUse], kinds: Sequence[StateKind]) -> str:
    if s.pooler is None:
        by_whom = "a pooler between clients and server shares its sessions among them"
    else:
        mode = s.pooler.settings.get("pool_mode", "")
        by_whom = f"{s.pooler.name} in {mode} mode gives each transaction any of its sessions"
    named = listed([_IN_WORDS[kind] for kind in kinds])
    return f"{named} outlast the transaction, and {by_whom}: {quoted(uses[0].statement)}"


def _parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the response time that waits for lost advisory locks take."""
    waiting = s.sessions("advisory")
    if not waiting or s.part("advisory") < WAITING_SHARE:
        return ()
    return ("advisory", "between") if s.part("advisory") >= MOST else ("advisory",)


def _left_behind(s: Situation, kinds: Sequence[StateKind]) -> list[Evidence]:
    """Return how many wait for advisory locks, and for those of sessions without a transaction."""
    if "advisory lock" not in kinds:
        return []
    looks = [look for look in seen_queues(s) if look.lock_type == "advisory"]
    idle = sum(look.waiting for look in looks if look.blocker_state == "idle")
    waiting = sum(look.waiting for look in looks)
    return [
        s.evidence("sessions waiting for an advisory lock", s.sessions("advisory"), "sessions"),
        s.evidence(
            "of those seen waiting, behind a session without a transaction",
            idle / waiting if waiting else 0.0,
            "share",
        ),
    ]
