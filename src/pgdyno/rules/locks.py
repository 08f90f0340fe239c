"""Waits for locks that transactions hold on tables and other objects, and what ends them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from pgdyno import numbers
from pgdyno.facts.budget import Part
from pgdyno.facts.flush import device_words
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.rules._lock_chains import (
    chain_advice,
    chain_evidence,
    chain_of,
    chain_relation,
    chain_words,
    holder_words,
)
from pgdyno.rules._pool_sessions import loses_advisory_locks
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._queues import (
    FOREIGN_ADVICE,
    MOST,
    WAITING_SHARE,
    LockHolder,
    Queues,
    cleared,
    evidence,
    holder_of,
    matters,
    queues,
    quoted,
    summary,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import is_commit, locks_until_commit


@rule(
    "relation-lock",
    false_positives="maintenance that is meant to stop the load for a moment",
)
def relation_lock(s: Situation) -> Found | Cleared:
    """Locks on relations: sessions wait for a table that another session has locked as a whole.

    LOCK TABLE, TRUNCATE, VACUUM FULL and most forms of ALTER TABLE exclude all others. They also do
    so while they wait themselves for a long transaction: everyone who comes later queues behind
    them. Then the finding names each session of the chain, the modes that it wants and holds, and
    how many of those who wait conflict with a request alone, not with a lock that anybody holds.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, are seen waiting for a relation
    (Lock:relation).

    Thresholds: as for hot rows, see ``_queues``.
    """
    found = queues(s, "relation")
    shown = evidence(s, found, "a relation")
    if not matters(s, found):
        return Cleared(cleared(s, found, "a lock on a table"), shown, parts=("relation",))
    holder, chain = holder_of(s, found), chain_of(s, found)
    table = found.relation if chain is None else chain_relation(chain)
    words = _held_by(s, found, holder) if chain is None else chain_words(s, chain)
    return Found(
        sentence=summary(s, found, f"a lock on {table or 'a table'}") + words,
        parts=found.parts,
        share=found.own_share,
        removable_share=1.0,
        confidence=0.9,
        evidence=shown if chain is None else [*shown, *chain_evidence(s, chain)],
        causes=("idle-in-transaction",),
        advice=_relation_lock_advice(holder) if chain is None else chain_advice(chain),
    )


def _relation_lock_advice(holder: LockHolder) -> str:
    if holder.statement:
        return FOREIGN_ADVICE
    return (
        "lock rows (SELECT … FOR UPDATE) instead of the table, or use a weaker mode; give"
        " statements that change a table a lock_timeout, so that the load does not queue behind"
        " them"
    )


def _held_by(s: Situation, found: Queues, known: LockHolder) -> str:
    """Return the session that has the lock, behind which most wait."""
    if known.hidden:
        return known.words
    most = next((look for look in found.looks if look.blocker == found.blocker), None)
    return f", held by: {holder_words(s, most)}" if most is not None and most.blocker else ""


@rule(
    "advisory-lock",
    false_positives="a queue that the application wants, such as one worker at a time",
)
def advisory_lock(s: Situation) -> Found | Cleared:
    """Advisory locks: sessions wait for a lock that the application itself defines.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, are seen waiting for an advisory lock
    (Lock:advisory).

    Thresholds: as for hot rows, see ``_queues``.
    """
    found = queues(s, "advisory")
    sentence, shown = summary(s, found, "an advisory lock"), evidence(s, found, "an advisory lock")
    if not matters(s, found):
        return Cleared(cleared(s, found, "an advisory lock"), shown, parts=("advisory",))
    waiting = [found.waiting_statement, *s.statements_waiting("advisory")]
    text = next(filter(None, waiting), None)
    statement = quoted(text)
    holder = holder_of(s, found)
    return Found(
        sentence=f"{sentence}: {statement}{holder.words}" if statement else sentence + holder.words,
        parts=found.parts,
        share=found.own_share,
        removable_share=0.0 if loses_advisory_locks(s) else 1.0,
        confidence=0.9,
        evidence=shown,
        causes=("session-state", "idle-in-transaction"),
        advice=FOREIGN_ADVICE if holder.statement else _advisory_lock_advice(s, text or ""),
    )


_XACT_LOCK_ADVICE = (
    "take the lock with pg_advisory_xact_lock in the transaction that it protects: one of a session"
    " stays with that session, which the pooler gives to others"
)


def _advisory_lock_advice(s: Situation, statement: str) -> str:
    """Return advice to hold the lock for a shorter time: one of a transaction ends with it."""
    if loses_advisory_locks(s):
        return _XACT_LOCK_ADVICE
    sooner = (
        "shorten what follows it in the transaction, at whose end it is let go of,"
        if locks_until_commit(statement)
        else "let go of it before the commit (pg_advisory_unlock)"
    )
    return (
        f"take the lock later, {sooner} or divide it into locks with different keys: while it is"
        " held, all other clients are idle"
    )


FOREIGN_KEY_ADVICE = (
    "lock the referenced row FOR NO KEY UPDATE instead of FOR UPDATE: foreign keys do not wait for"
    " that; and do not update columns of its key"
)


@rule(
    "foreign-key",
    false_positives="statements that lock rows FOR KEY SHARE themselves",
)
def foreign_key(s: Situation) -> Found | Cleared:
    """Foreign keys: sessions that insert or update a row wait for the row that it refers to.

    The check of a foreign key locks the referenced row FOR KEY SHARE. That mode waits only for
    those who delete the row, change its key, or have locked it FOR UPDATE. Where it does not wait,
    it still costs: a row that several transactions share has a multixact, see that rule.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, wait for a row in the mode FOR KEY
    SHARE.

    Thresholds: as for hot rows, see ``_queues``.
    """
    found = queues(s, "foreign key")
    table = f" of {found.relation}" if found.relation else ""
    sentence = summary(s, found, f"rows{table} that a foreign key refers to")
    shown = evidence(s, found, "a referenced row")
    if not matters(s, found):
        return Cleared(
            cleared(s, found, "rows that a foreign key refers to"), shown, parts=("row",)
        )
    holder, statement = holder_of(s, found), quoted(found.blocker)
    held = f", held by: {statement}" if statement else ""
    return Found(
        sentence=f"{sentence}{holder.words or held}",
        parts=found.parts,
        share=found.own_share,
        removable_share=1.0,
        confidence=0.8,
        evidence=shown,
        causes=("idle-in-transaction",),
        advice=f"{FOREIGN_ADVICE}; or {FOREIGN_KEY_ADVICE}"
        if holder.statement
        else FOREIGN_KEY_ADVICE,
    )


HELD_SHARE = 0.3
"""Part of the time that the lock is held from which the flush, or the standby, is named."""
_EVENT = ("Lock", "object")
_NOTIFIES = re.compile(r"\b(?:pg_)?notify\b", re.IGNORECASE)
_DEFINES = ("create", "alter", "drop", "comment", "grant", "revoke", "reassign", "security")
NOTIFY_LOCK_ADVICE = (
    "send notifications in fewer transactions: let one session send them for many changes, or send"
    " only what somebody listens for; transactions without NOTIFY do not take the lock"
)


@rule(
    "notify-lock",
    false_positives=(
        "functions that define or remove objects (lo_unlink, CREATE within a function), which"
        " lock these in the same way"
    ),
)
def notify_lock(s: Situation) -> Found | Cleared:
    """NOTIFY: commits that queue notifications take turns, one at a time on the whole server.

    A transaction that executed NOTIFY or pg_notify takes an exclusive lock before its commit record
    is written and holds it until it has committed, so that notifications are in the order of
    commits (PreCommit_Notify in async.c; the lock is on "database 0"). So it is held through the
    commit's flush and a standby's confirmation, and commits do not share a flush. Whether anybody
    listens does not matter.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, are seen waiting for an object that
    is neither a table nor a row (Lock:object), most of them with statements that do not define
    objects: at COMMIT nothing else takes such a lock.

    Without the lock commits share flushes again: each waits for the flush under way and for its
    own, as commits without NOTIFY do, so that the gain is what the queue takes less a part of a
    flush. Confirmed with a flush of 5 ms and 8 clients: 4.1x predicted, 3.9x for the same
    transactions without NOTIFY.

    Thresholds: as for hot rows, see ``_queues``. Versions: 14 to 18 alike.
    """
    found = queues(s, "object")
    shown = evidence(s, found, "an object")
    texts = _waiting_statements(s)
    if not matters(s, found) or _define(texts) > sum(texts.values()) / 2:
        parts: tuple[Part, ...] = ("lock",) if found.whole and not matters(s, found) else ()
        return Cleared(cleared(s, found, "an object other than a table"), shown, parts=parts)
    flush, replica = (_part_of_holding(s, found, name) for name in ("flush", "replica"))
    shown += [
        s.evidence("flush / time that the lock is held (estimate)", flush, "share"),
        s.evidence("wait for a standby / time that it is held (estimate)", replica, "share"),
    ]
    holder = holder_of(s, found)
    without = _without_lock(s, found)
    sentence = summary(s, found, "the lock that each commit with NOTIFY holds, one at a time")
    return Found(
        sentence=f"{sentence}{_held(s, flush, replica)}{holder.words}",
        parts=found.parts,
        share=found.own_share,
        removable_share=1.0 - 1.0 / max(1.0, without),
        confidence=_confidence(s, texts),
        evidence=shown,
        causes=(
            *(["commit-flush", "commit-delay"] if flush >= HELD_SHARE else []),
            *(["sync-replication"] if replica >= HELD_SHARE else []),
        ),
        proposals=[] if holder.words else _proposals(s, found, flush),
        advice=FOREIGN_ADVICE if holder.statement else _notify_lock_advice(without),
    )


def _waiting_statements(s: Situation) -> Counter[str]:
    """Return the statements seen waiting for an object, with their sessions in hundredths."""
    texts: Counter[str] = Counter()
    for wait in s.waits:
        if (wait.wait_event_type, wait.wait_event) == _EVENT and wait.statement:
            texts[wait.statement.strip("; ").lower()] += round(100 * wait.average)
    return texts


def _define(texts: Counter[str]) -> int:
    """Return the sessions that wait with a statement which defines objects."""
    return sum(count for text, count in texts.items() if text.startswith(_DEFINES))


def _confidence(s: Situation, texts: Counter[str]) -> float:
    """Return how sure it is that notifications are what is waited for."""
    own = [*texts, *(each.statement for each in s.statements)]
    if any(_NOTIFIES.search(text) for text in own):
        return 0.9
    at_commit = sum(count for text, count in texts.items() if is_commit(text))
    return 0.8 if texts and at_commit > sum(texts.values()) / 2 else 0.6


def _part_of_holding(s: Situation, found: Queues, part: Literal["flush", "replica"]) -> float:
    """Return the part of the time that the lock is held which its holder spends in ``part``.

    One session holds it at a time. With so many waiting, W, it is held for U of the time, by
    W = U² / (1 - U) as the model has it of rows.
    """
    waiting = found.sessions
    held = ((waiting * waiting + 4 * waiting) ** 0.5 - waiting) / 2
    return min(1.0, s.sessions(part) / held) if held > 0 else 0.0


def _held(s: Situation, flush: float, replica: float) -> str:
    if replica >= HELD_SHARE:
        return ", held until a standby confirms the commit"
    return f", held through the commit's flush{device_words(s)}" if flush >= HELD_SHARE else ""


def _without_lock(s: Situation, found: Queues) -> float:
    """Return the predicted ratio if commits did not take turns, but waited for the flush under way
    and for their own."""
    loop = s.loop
    flush_s = (2.0 - 1.0 / max(1.0, loop.sessions)) * (loop.flush_once_s or loop.flush_s)
    longer = flush_s / loop.flush_s if loop.flush_s > 0 else 1.0
    return _ratio(s, found, left=0.0, flush=max(1.0, longer))


def _notify_lock_advice(without: float) -> str:
    if without < WORTHWHILE_RATIO:
        return NOTIFY_LOCK_ADVICE
    return (
        f"{NOTIFY_LOCK_ADVICE}: {numbers.predicted(without)} the throughput is predicted if no"
        " transaction did"
    )


def _ratio(s: Situation, found: Queues, *, left: float, flush: float) -> float:
    """Return the predicted ratio with ``left`` of these waits and ``flush`` of the flush, parts."""
    own = found.sessions / max(found.sessions, s.sessions("relation", "lock"))
    return s.loop.predict(lock=1.0 - (1.0 - left) * own, flush=flush) / s.loop.predict()


def _proposals(s: Situation, found: Queues, flush: float) -> list[Proposal]:
    if flush < HELD_SHARE or s.settings.text("synchronous_commit") == "off":
        return []
    proposal = Proposal(
        remedy_id="synchronous-commit-off",
        change=Change(settings={"synchronous_commit": "off"}),
        predicted_ratio=_ratio(s, found, left=1.0 - flush, flush=0.0),
        why="the lock would be held for a shorter time: not through the flush",
    )
    return [proposal] if proposal.predicted_ratio >= WORTHWHILE_RATIO else []


DEADLOCKS_SQLSTATE = "40P01"
DEFAULT_TIMEOUT_MS = 1000.0
"""deadlock_timeout where the run file, which leaves defaults out, has none."""


@rule(
    "deadlocks",
    false_positives="a benchmark that draws the rows of a transaction in no order",
)
def deadlocks(s: Situation) -> Found | Cleared:
    """Deadlocks: sessions wait for each other, until PostgreSQL ends one of their transactions.

    It looks for them only when a session has waited for deadlock_timeout, one second by default.
    All that time the sessions of the cycle do nothing, nor do those that queue behind them;
    afterwards the one that was ended does its work again.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, wait in a cycle or behind one.

    Thresholds: as for hot rows, see ``_queues``; calibrated by injection, transactions that change
    two of twenty rows in any order.
    """
    found = queues(s, "deadlock")
    shown = [*evidence(s, found, "one in a deadlock"), *_counts(s)]
    what = "each other in a deadlock, or behind one"
    sentence = summary(s, found, what)
    if not matters(s, found):
        return Cleared(cleared(s, found, what), shown, parts=("row",))
    timeout_ms = s.settings.duration_ms("deadlock_timeout") or DEFAULT_TIMEOUT_MS
    of_advisory_locks = _is_over_advisory_locks(found)
    is_symptom = of_advisory_locks and loses_advisory_locks(s)
    return Found(
        sentence=(
            f"{sentence}{_over(found)}; each lasts for {figure(timeout_ms)} ms (deadlock_timeout)"
            f"{_with_others(s, found)}"
        ),
        parts=found.parts,
        share=found.own_share,
        removable_share=0.0 if is_symptom else 1.0,  # no order of locks removes them
        confidence=0.9,
        evidence=shown,
        causes=("session-state",) if of_advisory_locks else (),
        advice=_deadlock_advice(s, found),
    )


def _is_over_advisory_locks(found: Queues) -> bool:
    """True if most of those in the deadlocks wait for advisory locks."""
    of_type = sum(look.waiting for look in found.looks if look.lock_type == "advisory")
    return of_type > MOST * sum(look.waiting for look in found.looks)


def _over(found: Queues) -> str:
    if _is_over_advisory_locks(found):
        return " over advisory locks"
    return f" over rows of {found.relation}" if found.relation else ""


def _deadlock_advice(s: Situation, found: Queues) -> str:
    if not _is_over_advisory_locks(found):
        return (
            "let all transactions change their rows in the same order, or lock them first in one"
            " statement with ORDER BY … FOR UPDATE; a lower deadlock_timeout ends each deadlock"
            " sooner"
        )
    if loses_advisory_locks(s):
        return _XACT_LOCK_ADVICE
    return (
        "let all sessions take their advisory locks in the same order; a lower deadlock_timeout"
        " ends each deadlock sooner"
    )


def _with_others(s: Situation, found: Queues) -> str:
    """Return the statement of a session in the deadlocks that is not of the load; '' if none is."""
    statement = holder_of(s, found).statement
    if statement is None:
        return ""
    return f"; in most of them is a session that is not of this load: {quoted(statement)}"


def _counts(s: Situation) -> list[Evidence]:
    """Return the deadlocks by the server's count, and the transactions that they ended."""
    errors = [error for error in s.run.errors(s.slice_ids) if error.sqlstate == DEADLOCKS_SQLSTATE]
    ended = sum(error.count for error in errors)
    retried = sum(error.count for error in errors if error.retried)
    shown = [
        s.evidence(f"statements that failed with {DEADLOCKS_SQLSTATE}", ended, "count"),
        s.evidence("of these retried", retried, "count"),
    ]
    counted_by_server = s.run.delta("metric_database", "deadlocks", s.slice_ids)
    if counted_by_server is not None:
        name = f"deadlocks in {counted(s.seconds, 'second', 'seconds')}"
        shown.insert(0, s.evidence(name, counted_by_server, "count"))
    return shown


SERIALIZATION_FAILURES_SQLSTATE = "40001"
LOST_SHARE = WAITING_SHARE


@rule(
    "serialization-failures",
    of_clients=True,
    false_positives=(
        "a benchmark with fewer rows than the real load has; attempts that fail at their first"
        " statement, and so lose less time than is taken"
    ),
)
def serialization_failures(s: Situation) -> Found | Cleared:
    """Serialization failures: transactions fail because others changed what they read, and are
    retried.

    At REPEATABLE READ and SERIALIZABLE PostgreSQL ends a transaction that cannot be put in order
    with the others (SQLSTATE 40001, chapter 13.2 of its manual). What it did
    until then is lost, and the retry does it again.

    Trigger: at least ``LOST_SHARE`` of the attempts at a transaction ended so. That part of the
    response time is taken to be lost: an attempt that fails is taken to last as long as one that
    succeeds.

    Threshold: as for waits for locks, see ``_queues``; calibrated by injection, clients that change
    one row at SERIALIZABLE, of whose attempts two thirds failed.
    """
    errors = [
        error
        for error in s.run.errors(s.slice_ids)
        if error.sqlstate == SERIALIZATION_FAILURES_SQLSTATE
    ]
    lost, retried = (sum(e.count for e in of) for of in (errors, [e for e in errors if e.retried]))
    ledger = s.run.ledger(s.slice_ids)
    attempts = ledger.done + ledger.failed + retried
    share = min(1.0, lost / attempts) if attempts else 0.0
    sentence = f"{percent(share)} of the attempts at a transaction end with a serialization failure"
    shown = [
        s.evidence("attempts that failed with 40001 / attempts", share, "share",
                   f"at least {percent(LOST_SHARE)}"),
        s.evidence("attempts that failed with 40001", lost, "count"),
        s.evidence("of these retried", retried, "count"),
    ]  # fmt: skip
    if share < LOST_SHARE:
        return Cleared(sentence, shown)
    return Found(
        sentence=f"{sentence}, {figure(lost / s.seconds)} a second, and their work is lost",
        share=share,
        removable_share=1.0,
        confidence=0.8,
        evidence=shown,
        advice=(
            "take a lock before the first statement that reads (LOCK TABLE, or an advisory lock"
            " before BEGIN), so that conflicting transactions take turns; or READ COMMITTED with"
            " SELECT … FOR UPDATE, where that is enough; or spread what all of them change"
        ),
    )
