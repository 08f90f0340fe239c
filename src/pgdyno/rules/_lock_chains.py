"""Chains of waits in words: from sessions that wait, by those that wait themselves and stand in the
way of others, to the session that waits for none.

PostgreSQL gives a lock in the order of requests. A request that waits therefore keeps out all later
ones that conflict with it, also those that conflict with no lock which anybody holds: one ALTER
TABLE that waits for a long transaction stops all others on that table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.facts.situation import Situation
from pgdyno.numbers import duration, figure
from pgdyno.probe.lock_modes import strongest_beside
from pgdyno.record import LockLink, LockQueueTotal
from pgdyno.record.finding import Evidence
from pgdyno.rules._queues import MOST, Queues, is_of_load, quoted, seen_queues
from pgdyno.wait_events import LOCK_CLASSES

_WANTED = {
    "row": "waits for a row",
    "advisory": "wants an advisory lock",
    "lock": "waits for the end of a transaction",
}
_WORKER = "autovacuum worker"
_UPKEEP_MODE = "ShareUpdateExclusiveLock"
"""Mode of VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY."""
_UPKEEP_ADVICE = ", as of VALIDATE CONSTRAINT or CREATE INDEX CONCURRENTLY,"


def chain_of(s: Situation, found: Queues) -> LockQueueTotal | None:
    """Return the queue that stands for the chains of ``found``: that with most waiters, if most of
    those waiting are behind a session that waits itself."""
    looks: Sequence[LockQueueTotal] = found.looks
    if not looks and found.kind == "relation":
        looks = [each for each in seen_queues(s) if each.links and _of_table(each.links[-1])]
    linked = [each for each in looks if each.links]
    waiting = sum(each.waiting for each in looks)
    if not linked or sum(each.waiting for each in linked) <= MOST * waiting:
        return None
    return max(linked, key=lambda each: each.waiting)


def _of_table(link: LockLink) -> bool:
    """True if others wait for a table because of it."""
    return (link.held_type or link.lock_type) == "relation"


def chain_relation(chain: LockQueueTotal) -> str | None:
    """Return the table for which those at the end of a chain wait."""
    last = chain.links[-1]
    return last.held_relation if last.held_type else last.relation


def chain_words(s: Situation, chain: LockQueueTotal) -> str:
    """Return the chain as a clause, from those who wait on; with the sessions for whom the request
    at its head is alone in the way."""
    links = "".join(f" {_link_words(link)}" for link in reversed(chain.links))
    alone = chain.behind_request / chain.seen
    passing = (
        f"; when seen, {figure(alone)} of those who waited conflicted with no lock that was held"
        if alone
        else ""
    )
    return f", behind:{links} {holder_words(s, chain)}{passing}"


def _link_words(link: LockLink) -> str:
    statement = quoted(link.statement) or "a statement that is not visible"
    held = f"holds {link.held_mode}{_on(link.held_relation)} and " if link.held_mode else ""
    return f"{statement}, which {held}{_want_words(link)}, itself behind:"


def _want_words(link: LockLink) -> str:
    """Return the lock that a link waits for: "wants AccessExclusiveLock on public.t"."""
    if link.lock_type == "relation":
        return f"wants {link.mode}{_on(link.relation)}"
    return f"{_WANTED[LOCK_CLASSES.get(link.lock_type, 'lock')]}{_of(link.relation)}"


def _on(relation: str | None) -> str:
    return f" on {relation}" if relation else ""


def _of(relation: str | None) -> str:
    return f" of {relation}" if relation else ""


def holder_words(s: Situation, queue: LockQueueTotal) -> str:
    """Return the session at the end of a chain: "vacuum t (process 7, ShareUpdateExclusiveLock,
    for up to 40 s)"."""
    if queue.blocker_state == "prepared":
        return "a prepared transaction"
    statement = quoted(queue.blocker) or "a session whose statement is not visible"
    about = []
    if queue.blocker_pid:
        about.append(f"process {queue.blocker_pid}")
    if queue.blocker_mode and queue.lock_type == "relation":
        about.append(queue.blocker_mode)
    if queue.blocker_state.startswith("idle"):
        about.append(queue.blocker_state)
    if queue.blocker_transaction_ms_max > 0:
        about.append(f"for up to {duration(queue.blocker_transaction_ms_max / 1000)}")
    foreign = queue.blocker is not None and not is_of_load(s, queue.blocker)
    of_others = ", not of this load" if foreign and not s.is_observed else ""
    more = f" ({', '.join(about)})" if about else ""
    return f"{statement}{of_others}{more}"


def chain_evidence(s: Situation, chain: LockQueueTotal) -> list[Evidence]:
    """Return the links of a chain, and how many sessions wait for a request alone."""
    shown = []
    for link in chain.links:
        text = link.statement or "not visible"
        shown += [
            s.evidence("statement that waits and is in the way of others", text, ""),
            s.evidence("mode that it wants", link.mode, ""),
        ]
    if chain.blocker_mode:
        shown.append(s.evidence("mode of the lock that is held", chain.blocker_mode, ""))
    if chain.waiting_mode:
        shown.append(s.evidence("strongest mode wanted behind it", chain.waiting_mode, ""))
    alone = chain.behind_request / chain.seen
    return [
        *shown,
        s.evidence("sessions behind a request, not a lock", alone, "sessions"),
        s.evidence("oldest transaction of the holder", chain.blocker_transaction_ms_max, "ms"),
    ]


def chain_advice(chain: LockQueueTotal) -> str:
    """Return advice for a request that waits and is in the way of others."""
    waiting = quoted(chain.links[-1].statement) or "the statement that waits"
    return (
        f"set a lock_timeout for “{waiting}”, and repeat it until it gets the lock: while it waits,"
        f" all later requests that conflict with it wait too{_passing(chain)}; {_of_holder(chain)}"
    )


def _passing(chain: LockQueueTotal) -> str:
    mode = strongest_beside(chain.waiting_mode) if chain.waiting_mode else None
    last = chain.links[-1]
    if mode is None or last.held_mode or last.lock_type != "relation":
        return ""
    such = _UPKEEP_ADVICE if mode == _UPKEEP_MODE else ""
    return f" (a request in {mode} or a weaker mode{such} would let these pass)"


def _of_holder(chain: LockQueueTotal) -> str:
    if chain.blocker_state == "prepared":
        return "end the prepared transaction (pg_prepared_xacts lists them)"
    if chain.blocker_type == _WORKER:
        return (
            "autovacuum gives way after deadlock_timeout, unless it prevents wraparound: then let"
            " it end first"
        )
    if chain.blocker_state.startswith("idle"):
        return (
            "end the transaction that is idle; a limit for those that forget to commit is"
            " idle_in_transaction_session_timeout"
        )
    if chain.blocker_mode == _UPKEEP_MODE:
        return "execute it when the vacuum or index build that it waits for is over, or cancel that"
    return "execute it when no long transaction is open, or end the one that it waits for"
