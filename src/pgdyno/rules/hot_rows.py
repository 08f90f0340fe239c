"""Rows that many transactions change."""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from pgdyno.facts.flush import device_words
from pgdyno.facts.plans import LONGER_STATEMENTS
from pgdyno.facts.scripts import only_script
from pgdyno.facts.sessions import QUICK_PERCENTILE
from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import Facts
from pgdyno.facts.wakeup_cost import WOKEN_CPU_S
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Proposal
from pgdyno.rules._client_counts import fewer_clients
from pgdyno.rules._pools import WORTHWHILE_RATIO, smaller_pools
from pgdyno.rules._queues import (
    FOREIGN_ADVICE,
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
from pgdyno.spec.sql_text import is_commit
from pgdyno.stats.prediction import Prediction, between
from pgdyno.wait_events import DATA, SHARED, WaitClass
from pgdyno.workload.update_last import LateUpdate, late_update

FLUSH_OF_HOLDING = 0.3
_ROWS_PER_SCALE = {"pgbench_branches": 1, "pgbench_tellers": 10}
_WHILE_HOLDING: tuple[WaitClass, ...] = (
    *("flush", "commit delay", "replica", "cpu", "client", "sleep", "other"),
    *(*DATA, *SHARED),
)
_CHOSEN = re.compile(r"\bwhere\b.*(?<!:)[:$]\w", re.IGNORECASE | re.DOTALL)
"""A statement whose rows a variable or a parameter chooses."""
_KEY = "workload.update_last"


@rule(
    "hot-row",
    false_positives=(
        "a benchmark with fewer hot rows than the real load has (TPC-B updates one of `scale`"
        " branches in every transaction)"
    ),
)
def hot_row(s: Situation) -> Found | Cleared:
    """Hot rows: sessions wait for other transactions to let go of the same rows.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, are seen waiting for a row
    (Lock:transactionid, Lock:tuple), in queues in which one transaction after the other wants the
    same row. Queues behind a transaction that holds many rows, behind idle clients and for rows
    that foreign keys share have rules of their own.

    Thresholds and how the queues are distinguished: see ``_queues``.
    """
    found = queues(s, "row")
    holder = holder_of(s, found)
    if holder.words:  # how long others hold rows, the load's own waits do not tell
        flush, replica = 0.0, 0.0
    else:
        flush, replica = _flush_of_holding(s, found), _part_of_holding(s, "replica")
    shown = [
        *evidence(s, found, "the same row"),
        s.evidence("flush / time that rows are held", flush, "share"),
        s.evidence("wait for a standby / time that rows are held", replica, "share"),
    ]
    if not matters(s, found):
        return Cleared(cleared(s, found, "the same row"), shown, parts=("row",))
    where = f" in {found.relation}" if found.relation else ""
    why = holder.words or _of_scale(s, found.relation)
    return Found(
        sentence=f"{summary(s, found, f'the same rows{where}')}{_held(s, flush, replica)}{why}",
        parts=("row",),
        share=found.own_share,
        removable_share=s.loop.ratio(row=0.0).lifted,
        confidence=0.9 if s.part("row") >= 2 * WAITING_SHARE else 0.7,
        evidence=shown,
        causes=(
            *(["commit-flush", "commit-delay"] if flush >= FLUSH_OF_HOLDING else []),
            *(["sync-replication"] if replica >= FLUSH_OF_HOLDING else []),
            *("idle-in-transaction", "deadlocks", "round-trips", *LONGER_STATEMENTS),
        ),
        proposals=[] if holder.words else _proposals(s, found, flush),
        advice=FOREIGN_ADVICE if holder.statement else _advice(found),
    )


def _held(s: Situation, flush: float, replica: float) -> str:
    if replica >= FLUSH_OF_HOLDING:
        return ", held until a standby confirms the commit"
    if flush >= FLUSH_OF_HOLDING:
        return f", held through the commit's flush{device_words(s)}"
    return ""


def _advice(found: Queues) -> str:
    table = found.relation or "the table"
    return (
        f"update the row of {table} last in the transaction, so that it is held for a shorter time,"
        " or spread what it counts over several rows that are summed when read"
    )


def _of_scale(s: Situation, relation: str | None) -> str:
    """Return a note if the scale of pgbench's tables makes the row hot."""
    table = (relation or "").rpartition(".")[2]
    rows_each = _ROWS_PER_SCALE.get(table)
    scale = int(s.run.run.spec.get("workload", {}).get("scale") or 0)
    if rows_each is None or not scale or scale * rows_each >= s.sessions_max:
        return ""
    if not _is_chosen(s, table):
        return f"; the script writes its key in {table} as a constant"
    rows = counted(scale * rows_each, "row", "rows")
    enough = math.ceil(s.sessions_max / rows_each)
    return (
        f"; scale {scale} has {rows} in {table} for"
        f" {counted(s.sessions_max, 'client', 'clients')}: {_remake(s, enough)}"
    )


def _is_chosen(s: Situation, table: str) -> bool:
    """True unless all statements of the load on ``table`` have their row as a constant."""
    texts = [
        each.statement
        for each in s.statements
        if table in each.statement and " where " in each.statement.lower()
    ]
    return not texts or any(_CHOSEN.search(text) for text in texts)


def _remake(s: Situation, scale: int) -> str:
    """Return the options that make pgbench's tables at this scale."""
    initialized = s.run.run.spec.get("workload", {}).get("initialize")
    if initialized or s.run.run.server.get("tables") == "theirs":
        return f"-i -s {scale} (drops and makes the four tables)"
    return f"-s {scale}"


def _flush_of_holding(s: Situation, found: Queues) -> float:
    """Part of the time that a session which holds rows spends in its commit's flush.

    Rows are let go of only after the flush, so of the work done while holding them the flush has
    its share among what sessions do that do not wait for rows themselves.
    """
    share = _part_of_holding(s, "flush")
    ends = is_commit(found.blocker or "") and not s.sessions("replica")
    return max(share, FLUSH_OF_HOLDING) if ends and share > 0.1 else share


def _part_of_holding(s: Situation, part: WaitClass) -> float:
    """Part of that time that ``part`` takes, such as a standby that has yet to confirm."""
    others = s.sessions(*_WHILE_HOLDING)
    return s.sessions(part) / others if others > 0 else 0.0


def _proposals(s: Situation, found: Queues, flush: float) -> list[Proposal]:
    proposals = smaller_pools(s) + _update_last(s, found.relation)
    if flush >= FLUSH_OF_HOLDING and s.settings.text("synchronous_commit") != "off":
        proposals.append(
            Proposal(
                remedy_id="synchronous-commit-off",
                change=Change(settings={"synchronous_commit": "off"}),
                predicted_ratio=s.loop.ratio(flush=0.0),
                why="rows would be held for a shorter time: not through the flush",
            )
        )
    gaining = [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]
    return [*gaining, *fewer_clients(s, s.sessions("row"), "the same rows")]


def _update_last(s: Situation, relation: str | None) -> list[Proposal]:
    """Return the proposal to update the row last, where the script permits it."""
    left = _held_parts(s, relation) if relation else None
    if left is None:
        return []
    most, least = left
    return [
        Proposal(
            remedy_id="update-last",
            change=Change(spec={"workload.update_last": relation or ""}),
            predicted_ratio=between(s.loop.ratio(row=most), _at_best(s, least)),
            why=f"the row would be held for {percent(least)} to {percent(most)} of the time that it"
            " is held now",
            specific=True,
        )
    ]


def _at_best(s: Situation, held: float) -> Prediction:
    """Return the prediction where what no wait explains goes with the queue: each session in it is
    woken in its turn, and all who wait for the transaction that holds the row when it ends."""
    woken_s = s.loop.server_woken_s + WOKEN_CPU_S * s.sessions("row")
    loop = replace(s.loop, queued_s=s.loop.rest_s, server_woken_s=woken_s)
    return loop.ratio(row=held, shared=_apart(s))


def _apart(s: Situation) -> float:
    """Return the part of the waits for shared memory that is not for the lock manager's, which the
    queue for the row causes."""
    shared = s.sessions(*SHARED)
    return 1.0 - s.sessions("lock manager") / shared if shared > 0 else 1.0


def _held_parts(s: Situation, table: str) -> tuple[float, float] | None:
    """Return the part of the time that a row of ``table`` is held which would remain, 0 to 1, at
    most and at least.

    By the clients' own times of the statements that follow the update: all of them up to COMMIT
    now, COMMIT alone then. Who gets the row has just been woken, behind others who wait for a core
    or for their flush; what COMMIT takes in their absence is between its mean and its quickest
    executions, or a round trip and one flush, for which nobody on an idle core is woken, where that
    is less. None if the script does not permit it or is not the only one.
    """
    moved = _moved(s, table)
    statements = sorted(s.statements, key=lambda each: each.position)
    if moved is None or len(statements) <= moved.end:
        return None
    if any(not each.service.count for each in statements):
        return None
    end = statements[moved.end].service
    quick_ns = [each.service.percentile(QUICK_PERCENTILE) for each in statements]
    after_ns = sum(each.service.mean for each in statements[moved.place + 1 : moved.end + 1])
    # Where all updates wait, their own time is not known: that of the quickest kind stands for it.
    own_ns = min(quick_ns[moved.place], min(each.service.mean for each in statements))
    most = (own_ns + end.mean) / (own_ns + after_ns)
    round_trip_ns = min(quick_ns)
    end_ns = min(quick_ns[moved.end], round_trip_ns + _flush_ns(s))
    return most, (round_trip_ns + end_ns) / (own_ns + after_ns)


def _flush_ns(s: Situation) -> float:
    """Return the time of a flush without that of being woken; infinite if no flush was seen."""
    if s.loop.flush_s <= 0:
        return math.inf
    flush_s = min(s.loop.flush_s, s.loop.flush_once_s or math.inf)
    return 1e9 * max(0.0, flush_s - WOKEN_CPU_S)


def _moved(s: Facts, table: str) -> LateUpdate | None:
    if len(s.groups) != 1 or _KEY in s.change.spec:
        return None
    text = only_script(s)
    return late_update(text, table) if text else None


ADVICE = (
    "split the batch into transactions of few rows, or run it when the load is low; each row is"
    " held until the batch commits"
)


@rule(
    "batch-update",
    false_positives=(
        "transactions of the load itself that change many rows each, in no common order, so that"
        " each is in the way of several others"
    ),
)
def batch_update(s: Situation) -> Found | Cleared:
    """Batch updates: sessions wait for different rows, all held by one transaction.

    Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and on average
    ``WAITING_MIN``, of few connections ``FEW_WAITING_SHARE``, wait for rows in queues whose waiters
    are each first in line for a row of their own (``SPREAD``), behind the same transaction.

    Thresholds and how the queues are distinguished: see ``_queues``.
    """
    found = queues(s, "batch")
    what = "different rows that one transaction holds"
    sentence = summary(s, found, what)
    shown = [
        *evidence(s, found, "rows of a batch"),
        s.evidence("different rows waited for behind one", found.mean("places"), "count"),
        s.evidence("age of the holder's transaction", found.blocker_ms("transaction"), "ms"),
    ]
    if not matters(s, found):
        return Cleared(cleared(s, found, what), shown, parts=("row",))
    holder = holder_of(s, found)
    return Found(
        sentence=f"{sentence}{_where(found)}{_by(found, holder)}",
        parts=found.parts,
        share=found.own_share,
        removable_share=1.0,
        confidence=0.8,
        evidence=shown,
        advice=f"the load itself is not at fault: {ADVICE}" if holder.statement else ADVICE,
    )


def _where(found: Queues) -> str:
    return f" in {found.relation}" if found.relation else ""


def _by(found: Queues, holder: LockHolder) -> str:
    """Return the holder's age and statement, and whether it is a session of the load."""
    age = f", open for {figure(found.blocker_ms('transaction'))} ms on average when seen"
    if holder.words:
        return f"{age}{holder.words}"
    statement = quoted(found.blocker)
    return f"{age}: {statement}" if statement else age
