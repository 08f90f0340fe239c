"""Kinds of queues for heavyweight locks, distinguished by the looks at them, and holders of locks
that are no sessions of the load or could not be seen.

The wait events say which sessions wait for a row, an advisory lock or another lock; the looks say
who is at the head of the queue, and divide these sessions among the kinds:

    deadlock      all wait, and none can go on before PostgreSQL has ended one of them
    idle          the blocker is idle in its transaction, and not only for a round trip
    batch         the blocker has changed many rows, and each waiter is first in line for another
    foreign key   the waiters want to share a row only as foreign keys do (FOR KEY SHARE)
    row           all others: transactions that queue for the same row
    advisory, relation, object, other
                  by the type of the lock

A run file without looks has, from the lock probe that samples once a second, one kind for each
class of waits.

A holder is not of the load if its statement is none of the load's, values, parameters and variables
aside. BEGIN, COMMIT and the like are everyone's. A role without pg_monitor does not see the
statements of other roles' sessions: who they are is then not known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.facts.shapes import shape
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record import LockQueueTotal
from pgdyno.record.finding import Evidence
from pgdyno.wait_events import HEAVYWEIGHT, LOCK_CLASSES, ROW_LOCKS, HeavyweightWait

WAITING_SHARE = 0.15
"""Part of the sessions in a transaction that wait in a kind of queue, above which it is found.
db-triage calls 10 waiters an alarm, whatever the load; a share is needed to compare with other
waits, so it is calibrated by injection: tables with one hot row and with many rows."""
WAITING_MIN = 0.8
"""Sessions below which such a share is chance."""
FEW_WAITING_SHARE = 0.25
"""Part of the connections at work that is enough where these are few."""
SPREAD = 0.4
"""Part of the waiters, beyond one, that are first in line for a row of their own: 0 behind a hot
row, 1 behind a transaction that has changed every row. Calibrated by injection: 0.00 to 0.08 behind
one row, TPC-B included, and 0.7 to 1 behind a batch."""
OTHERS_MIN = 0.3
"""Waiters beyond one, on average, below which ``SPREAD`` does not tell."""
LONG_BLOCKER = 3.0
"""Age of the only blocker's transaction / time for which a transaction works: 0.5 to 1 in a queue
of like transactions, whose holder is seen halfway or, with spread lengths, at its mean length."""
LOOKS_MIN = 5
"""Looks that such an age needs: transactions of exponential length exceed ``LONG_BLOCKER`` by
chance in 5 % of single looks, and in 0.1 % of means over five."""
BATCH_ROWS = 10.0
"""Rows of a table that a transaction changes on average, from which on batches are among them;
TPC-B changes one row of each table."""
IDLE_MS = 1000.0
"""A blocker idle for so long does not wait for the network; for shorter times see ``THINK_MS``."""
THINK_MS = 2.0
"""Time that clients spend between the statements of a transaction, above which it is not lateness
of the load generator; calibrated on a machine whose cores were all busy, where that came to 0.5."""

NEARLY_ALL = 0.95

Kind = Literal[
    "deadlock", "idle", "batch", "foreign key", "row", "advisory", "relation", "object", "other"
]
_USUALLY: dict[Kind, HeavyweightWait] = {
    "row": "row",
    "advisory": "advisory",
    "relation": "relation",
}
"""Kind → class of waits that is taken to be of this kind where no look tells."""
_WANTED: dict[HeavyweightWait, str] = {
    "row": "rows",
    "advisory": "advisory locks",
    "relation": "tables",
    "lock": "other locks",
}
_OTHER: dict[str, Kind] = {"advisory": "advisory", "relation": "relation", "object": "object"}
_EVENT_OF: dict[Kind, tuple[str, str]] = {"object": ("Lock", "object")}
"""Kind → the wait event that is its alone."""
_QUOTED_MAX = 60
_KEY_SHARE = "AccessShareLock"
"""Mode of the lock on a row that is wanted FOR KEY SHARE (README.tuplock of PostgreSQL)."""
MOST = 0.5
"""Part of those waiting above which the holder is said not to be of the load, or not known."""
FOREIGN_ADVICE = (
    "end that session's transaction, or make it shorter: the load itself is not at fault"
)


class Queues(Struct, frozen=True):
    """The queues of one kind, and the sessions in them."""

    kind: Kind
    sessions: float
    """Client sessions in these queues on average, by the samples of wait events."""
    looks: Sequence[LockQueueTotal]
    """The longest first."""
    parts: tuple[HeavyweightWait, ...]
    """Parts of the latency budget that they belong to."""
    share: float
    """Of the mean response time."""
    whole: bool
    """True if these parts are theirs alone, or nearly so."""

    @property
    def relation(self) -> str | None:
        """The table in whose queues most sessions wait."""
        return commonest((look.relation, look.waiting) for look in self.looks)

    @property
    def blocker(self) -> str | None:
        """The blocker's statement behind which most sessions wait."""
        return commonest((look.blocker, look.waiting) for look in self.looks)

    @property
    def waiting_statement(self) -> str | None:
        """The statement that most of the sessions wait with."""
        return commonest((look.waiting_statement, look.waiting) for look in self.looks)

    @property
    def wait_ms_max(self) -> float:
        """The longest wait that a look saw."""
        return max((look.wait_ms_max for look in self.looks), default=0.0)

    @property
    def own_share(self) -> float | None:
        """``share`` where other queues have a part in ``parts``, else None."""
        return None if self.whole else self.share

    def mean(self, name: Literal["waiting", "first", "places"]) -> float:
        """Mean over the looks that saw such a queue."""
        seen = sum(look.seen for look in self.looks)
        return sum(getattr(look, name) for look in self.looks) / seen if seen else 0.0

    def blocker_ms(self, name: Literal["transaction", "state"]) -> float:
        """Mean age of the blockers' transaction, or time in their state, by their waiters."""
        waiting = sum(look.waiting for look in self.looks)
        each = ((getattr(look, f"blocker_{name}_ms"), look.waiting) for look in self.looks)
        return sum(ms * weight for ms, weight in each) / waiting if waiting else 0.0


def queues(s: Situation, kind: Kind) -> Queues:
    """Return the queues of one kind; without looks, those whose class of waits is its own."""
    total, in_kind, mine = Counter[HeavyweightWait](), Counter[HeavyweightWait](), []
    for look in seen_queues(s):
        of_class = LOCK_CLASSES.get(look.lock_type, "lock")
        total[of_class] += look.waiting
        if _kind_of(s, look) == kind:
            in_kind[of_class] += look.waiting
            mine.append(look)
    fractions = {name: waiting / total[name] for name, waiting in in_kind.items()}
    usual = _USUALLY.get(kind)
    if usual is not None and not total[usual]:
        fractions[usual] = 1.0
    if kind in _EVENT_OF and s.sessions("lock"):
        waiting = s.by_event.get(_EVENT_OF[kind], 0.0)
        fractions = {"lock": waiting / s.sessions("lock") * _part_of_type(s, kind, mine)}
    return Queues(
        kind,
        sessions=sum(s.sessions(name) * part for name, part in fractions.items()),
        looks=mine,
        parts=tuple(fractions),
        share=sum(s.budget.share(name) * part for name, part in fractions.items()),
        whole=all(part >= NEARLY_ALL for part in fractions.values()),
    )


def _part_of_type(s: Situation, kind: Kind, mine: Iterable[LockQueueTotal]) -> float:
    """Return the part of the waiters for locks of one type that the looks have in this kind."""
    of_type = [look for look in seen_queues(s) if _OTHER.get(look.lock_type) == kind]
    total = sum(look.waiting for look in of_type)
    return sum(look.waiting for look in mine) / total if total else 1.0


def think_ms(s: Situation) -> float:
    """Return the time of a transaction for which its client has no statement under way, if known.

    By the client's own clock: it includes the generator's lateness, but not the network.
    """
    return s.between_statements_ms or 0.0


def matters(s: Situation, found: Queues) -> bool:
    """True if enough sessions wait in these queues."""
    at_work = s.sessions_at_work
    return found.sessions >= max(_waiting_min(s), WAITING_SHARE * at_work) if at_work else False


def _waiting_min(s: Situation) -> float:
    return min(WAITING_MIN, FEW_WAITING_SHARE * s.in_service)


def summary(s: Situation, found: Queues, what: str) -> str:
    """Return how many sessions wait: "12 of 16 sessions in a transaction wait for WHAT"."""
    waiting, at_work = figure(found.sessions), figure(s.sessions_at_work)
    return f"{waiting} of {at_work} sessions in a transaction wait for {what}"


def cleared(s: Situation, found: Queues, what: str) -> str:
    """Return how few sessions wait in these queues, and how many more wait for such locks in queues
    of another kind, of which this clears nothing."""
    usual = _USUALLY.get(found.kind, "lock" if found.kind in ("object", "other") else "row")
    parts = found.parts or (usual,)
    more, wanted = s.sessions(*parts) - found.sessions, " and ".join(_WANTED[p] for p in parts)
    others = f"; {figure(more)} more wait for {wanted} in queues of another kind"
    return f"{summary(s, found, what)}{others if more >= WAITING_MIN else ''}"


def evidence(s: Situation, found: Queues, what: str) -> list[Evidence]:
    """Evidence that all kinds have in common; ``what`` the sessions wait for, as in "a row"."""
    share = found.sessions / s.sessions_at_work if s.sessions_at_work else 0.0
    bar, least = f"at least {percent(WAITING_SHARE)}", f"at least {figure(_waiting_min(s))}"
    shown = [
        s.evidence(f"sessions waiting for {what} / sessions in a transaction", share, "share", bar),
        s.evidence(f"sessions waiting for {what}", found.sessions, "sessions", least),
        s.evidence("these waits / response time", found.share, "share"),
    ]
    if found.looks:
        shown += [
            s.evidence("sessions behind one, on average", found.mean("waiting"), "sessions"),
            s.evidence("longest wait seen", found.wait_ms_max, "ms"),
        ]
    waiting = [found.waiting_statement, *s.statements_waiting(*found.parts)]
    texts = {
        "table": found.relation,
        "statement of the lock's holder": found.blocker,
        "waiting statement": next(filter(None, waiting), None),
    }
    return shown + [s.evidence(name, text, "") for name, text in texts.items() if text]


def quoted(statement: str | None) -> str:
    """Return a statement as part of a sentence, shortened; '' without one."""
    if not statement:
        return ""
    return statement if len(statement) <= _QUOTED_MAX else f"{statement[:_QUOTED_MAX].rstrip()} …"


def commonest(weighted: Iterable[tuple[str | None, float]]) -> str | None:
    """Return the text with the largest sum of weights."""
    sums: Counter[str] = Counter()
    for text, weight in weighted:
        if text:
            sums[text] += round(max(weight, 1.0))
    return sums.most_common(1)[0][0] if sums else None


def seen_queues(s: Situation) -> list[LockQueueTotal]:
    """Return the queues seen. No transaction holds the lock to extend a table: not with these."""
    statements = frozenset(s.statements_waiting("row"))
    return [
        _at_its_root(look, s.lock_queues, statements)
        for look in s.lock_queues
        if look.lock_type != "extend"
    ]


def _at_its_root(
    look: LockQueueTotal, seen: Iterable[LockQueueTotal], waiting: frozenset[str]
) -> LockQueueTotal:
    """Return the queue with the table at the root of its chain of waiters.

    A blocker whose statement is one that waits for rows has only just been woken: the next in the
    chain is the table of that statement.
    """
    if look.lock_type not in ROW_LOCKS or look.blocker not in waiting:
        return look
    by_name = {each.relation.rpartition(".")[2]: each.relation for each in seen if each.relation}
    named = [by_name[word] for word in re.findall(r"\w+", look.blocker) if word in by_name]
    return replace(look, relation=named[0]) if named else look


def _kind_of(s: Situation, look: LockQueueTotal) -> Kind:
    if look.blocker_state == "deadlock":
        return "deadlock"
    if look.blocker_state == "prepared" or _is_idle(s, look):
        return "idle"
    if look.lock_type in ROW_LOCKS:
        if look.mode == _KEY_SHARE:
            return "foreign key"
        return "batch" if _is_batch(s, look) else "row"
    return _OTHER.get(look.lock_type, "other")


def _is_idle(s: Situation, look: LockQueueTotal) -> bool:
    idle = look.blocker_state.startswith("idle in transaction")
    return idle and (look.blocker_state_ms >= IDLE_MS or think_ms(s) >= THINK_MS)


def _is_batch(s: Situation, look: LockQueueTotal) -> bool:
    """True if the waiters are first in line for different rows, or queue for a row of a batch.

    A single waiter does not tell, nor do batches that queue behind each other, for they begin with
    the same row. Then the blocker's transaction is a batch if it is much older than the time for
    which transactions work, waits for locks excluded; and in a queue, if it also changes many rows.
    A few looks do not tell that.
    """
    others = look.waiting - look.seen
    in_line = others >= OTHERS_MIN * look.seen
    if in_line and (look.places - look.seen) / others >= SPREAD:
        return True
    working = s.sessions_at_work - s.sessions(*HEAVYWEIGHT)
    is_long = look.blocker_transaction_ms > LONG_BLOCKER * 1000 * working / s.throughput_tps
    return (
        look.seen >= LOOKS_MIN
        and is_long
        and (not in_line or _rows_each(s, look.relation) >= BATCH_ROWS)
    )


def _rows_each(s: Situation, relation: str | None) -> float:
    """Return the rows of a table that a transaction updates or deletes on average."""
    changed = (
        s.run.delta("metric_table", name, s.slice_ids, where={"relation": relation})
        for name in ("n_tup_upd", "n_tup_del")
    )
    return sum(rows or 0.0 for rows in changed) / (s.throughput_tps * s.seconds)


_SPACE = re.compile(r"\s+")
_OF_ANYONE = frozenset({"begin", "start", "commit", "end", "rollback", "abort", "prepare"})


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


def is_of_load(s: Situation, statement: str) -> bool:
    """True if a statement is one of the load's, or the load's are not known."""
    own = {_shape(each.statement) for each in s.statements}
    return not own or _is_own(statement, own)


def _is_own(blocker: str, own: set[str]) -> bool:
    """True if a statement, which the server may have cut off at its end, is one of the load's."""
    if blocker.strip("; ").partition(" ")[0].lower() in _OF_ANYONE:
        return True
    seen = _shape(blocker)
    return any(each.startswith(seen) or seen.startswith(each) for each in own)


def _shape(statement: str) -> str:
    """Return the shape of a statement without spaces."""
    return _SPACE.sub("", shape(statement))
