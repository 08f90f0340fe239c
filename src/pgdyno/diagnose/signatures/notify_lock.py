"""NOTIFY: commits that queue notifications take turns, one at a time on the whole server.

A transaction that executed NOTIFY or pg_notify takes an exclusive lock before its commit record is
written and holds it until it has committed, so that notifications are in the order of commits
(PreCommit_Notify in async.c; the lock is on "database 0"). So it is held through the commit's flush
and a standby's confirmation, and commits do not share a flush. Whether anybody listens does not
matter.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, are seen waiting for an object that is neither a table nor a row
(Lock:object), most of them with statements that do not define objects: at COMMIT nothing else takes
such a lock.

Without the lock commits share flushes again: each waits for the flush under way and for its own, as
commits without NOTIFY do, so that the gain is what the queue takes less a part of a flush.
Confirmed with a flush of 5 ms and 8 clients: 4.1x predicted, 3.9x for the same transactions
without NOTIFY.

Thresholds: as for hot rows, see ``_queues``. Versions: 14 to 18 alike.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._lock_holders import FOREIGN_ADVICE, holder_of
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._queues import Queues, cleared, evidence, matters, queues, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.flush import device_words
from pgdyno.record.finding import Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import is_commit

HELD_SHARE = 0.3
"""Part of the time that the lock is held from which the flush, or the standby, is named."""
_EVENT = ("Lock", "object")
_NOTIFIES = re.compile(r"\b(?:pg_)?notify\b", re.IGNORECASE)
_DEFINES = ("create", "alter", "drop", "comment", "grant", "revoke", "reassign", "security")
ADVICE = (
    "send notifications in fewer transactions: let one session send them for many changes, or send"
    " only what somebody listens for; transactions without NOTIFY do not take the lock"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for objects other than tables and rows."""
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
        liftable=1.0 - 1.0 / max(1.0, without),
        confidence=_confidence(s, texts),
        evidence=shown,
        causes=(
            *(["commit-flush", "commit-delay"] if flush >= HELD_SHARE else []),
            *(["sync-replication"] if replica >= HELD_SHARE else []),
        ),
        proposals=[] if holder.words else _proposals(s, found, flush),
        advice=FOREIGN_ADVICE if holder.statement else _advice(without),
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


def _advice(without: float) -> str:
    if without < WORTHWHILE_RATIO:
        return ADVICE
    return (
        f"{ADVICE}: {numbers.predicted(without)} the throughput is predicted if no transaction did"
    )


def _ratio(s: Situation, found: Queues, *, left: float, flush: float) -> float:
    """Return the predicted ratio with the part ``left`` of these waits and ``flush`` of the flush.

    The model has the waits among its rest.
    """
    lock_s = found.share * s.budget.response_ms / 1000
    shorter = replace(s.loop, rest_s=max(0.0, s.loop.rest_s - (1.0 - left) * lock_s))
    return shorter.predict(flush=flush) / s.loop.predict()


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


SIGNATURE = Signature(
    id="notify-lock",
    false_positives=(
        "functions that define or remove objects (lo_unlink, CREATE within a function), which lock"
        " these in the same way"
    ),
    examine=examine,
)
