"""Hot rows: sessions wait for other transactions to let go of the same rows.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, are seen waiting for a row (Lock:transactionid, Lock:tuple).

Threshold: db-triage calls 10 waiters an alarm, whatever the load; a share is needed to compare with
other waits, so these are calibrated by injection: tables with one hot row and with many rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pgdyno.diagnose._facts import CLIENT_BACKEND
from pgdyno.diagnose._pools import WORTHWHILE_RATIO, smaller_pools
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose._waits import wait_class
from pgdyno.diagnose.finding import Evidence, Proposal
from pgdyno.diagnose.words import counted, figure, percent
from pgdyno.spec.change import Change

WAITING_SHARE = 0.15
WAITING_MIN = 0.8
FLUSH_OF_HOLDING = 0.3
_ROWS_PER_SCALE = {"pgbench_branches": 1, "pgbench_tellers": 10}
_ENDS = ("commit", "end")


@dataclass(frozen=True)
class _Queue:
    """Samples of metric_lock: waiters, their rows, and the state of the holder."""

    behind_one_max: float
    relation: str | None
    blocker: str | None


def examine(s: Situation) -> Found | Cleared:
    """Examine sessions in a transaction that wait for a row."""
    total, waiting, queue = s.sessions_at_work, s.sessions("row"), _queue(s)
    evidence = _evidence(s, queue)
    if waiting < WAITING_MIN or s.part("row") < WAITING_SHARE:
        return Cleared(
            f"{figure(waiting)} of {figure(total)} sessions in a transaction wait for a row",
            evidence,
        )
    where = f" in {queue.relation}" if queue.relation else ""
    flush = _flush_of_holding(s)
    held = ", held through the commit's flush" if flush >= FLUSH_OF_HOLDING else ""
    return Found(
        sentence=(
            f"{figure(waiting)} of {figure(total)} sessions in a transaction wait for the same"
            f" rows{where}{held}{_of_scale(s, queue.relation)}"
        ),
        share=s.budget.share("row"),
        liftable=1.0 - 1.0 / s.loop.ratio(row=0.0),
        confidence=0.9 if s.part("row") >= 2 * WAITING_SHARE else 0.7,
        evidence=evidence,
        causes=("commit-flush",) if flush >= FLUSH_OF_HOLDING else (),
        proposals=_proposals(s, flush),
    )


def _of_scale(s: Situation, relation: str | None) -> str:
    """Return a note if the scale of pgbench's tables makes the row hot."""
    table = (relation or "").rpartition(".")[2]
    rows_each = _ROWS_PER_SCALE.get(table)
    scale = int(s.run.run.spec.get("workload", {}).get("scale") or 0)
    if rows_each is None or not scale or scale * rows_each >= s.sessions_max:
        return ""
    rows = counted(scale * rows_each, "row", "rows")
    enough = math.ceil(s.sessions_max / rows_each)
    return (
        f"; scale {scale} has {rows} in {table} for"
        f" {counted(s.sessions_max, 'client', 'clients')}: {_remake(s, enough)}"
    )


def _remake(s: Situation, scale: int) -> str:
    """Return the options that make pgbench's tables at this scale."""
    initialized = s.run.run.spec.get("workload", {}).get("initialize")
    if initialized or s.run.run.server.get("tables") == "theirs":
        return f"-i -s {scale} (drops and makes the four tables)"
    return f"-s {scale}"


def _evidence(s: Situation, queue: _Queue) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions waiting for a row / sessions in a transaction",
            s.part("row"),
            "share",
            f"at least {percent(WAITING_SHARE)}",
        ),
        s.evidence(
            "sessions waiting for a row", s.sessions("row"), "sessions", f"at least {WAITING_MIN:g}"
        ),
        s.evidence("wait for rows / response time", s.budget.share("row"), "share"),
        s.evidence("most sessions behind one", queue.behind_one_max, "count"),
        s.evidence("flush / time that rows are held", _flush_of_holding(s), "share"),
    ]
    if queue.relation:
        evidence.append(s.evidence("table", queue.relation, ""))
    if queue.blocker:
        evidence.append(s.evidence("statement of the lock's holder", queue.blocker, ""))
    return [
        *evidence,
        *(s.evidence("waiting statement", each, "") for each in _waiting_statements(s)[:1]),
    ]


def _waiting_statements(s: Situation) -> list[str]:
    """Return the statements sampled as waiting for a row, the most frequent first."""
    return [
        wait.statement
        for wait in s.run.waits(s.slice_ids)  # the most frequent first
        if wait.backend_type == CLIENT_BACKEND
        and wait.statement
        and wait_class(wait.state, wait.wait_event_type, wait.wait_event) == "row"
    ]


def _queue(s: Situation) -> _Queue:
    series = s.run.series("metric_lock", s.slice_ids)
    waited, behind = series["waiting"] > 0, series["behind_one_max"]
    if not waited.any():
        return _Queue(0.0, None, None)
    blockers = series["blocker_statement"][waited]
    relations = _root_relations(series["relation"][waited], blockers, set(_waiting_statements(s)))
    return _Queue(
        behind_one_max=float(behind[waited].max()),
        relation=_commonest(relations, behind[waited]),
        blocker=_commonest(blockers, behind[waited]),
    )


def _root_relations(
    relations: Iterable[str | None], blockers: Iterable[str | None], waiting: set[str]
) -> list[str | None]:
    """Return the relation at the root of the chain of waiters, by sample.

    A blocker whose statement is one that waits for rows has only just been woken: the next in the
    chain is the relation of that statement.
    """
    samples = list(zip(relations, blockers, strict=True))
    by_name = {each.rpartition(".")[2]: each for each, _ in samples if each}
    roots = []
    for relation, blocker in samples:
        words = re.findall(r"\w+", blocker) if blocker and blocker in waiting else []
        named = [by_name[word] for word in words if word in by_name]
        roots.append(named[0] if named else relation)
    return roots


def _commonest(texts: Iterable[str | None], weights: Iterable[float]) -> str | None:
    """Return the text of the samples with most sessions."""
    sessions: Counter[str] = Counter()
    for text, weight in zip(texts, weights, strict=True):
        if text:
            sessions[text] += round(max(weight, 1.0))
    return sessions.most_common(1)[0][0] if sessions else None


def _flush_of_holding(s: Situation) -> float:
    """Part of the time that a session which holds rows spends in its commit's flush.

    Rows are let go of only after the flush, so of the work done while holding them the flush has
    its share among what sessions do that do not wait for rows themselves.
    """
    blocker = (_queue(s).blocker or "").lower()
    others = s.sessions("flush", "cpu", "data", "shared", "client")
    share = s.sessions("flush") / others if others > 0 else 0.0
    return max(share, FLUSH_OF_HOLDING) if blocker.startswith(_ENDS) and share > 0.1 else share


def _proposals(s: Situation, flush: float) -> list[Proposal]:
    proposals = smaller_pools(s)
    if flush >= FLUSH_OF_HOLDING and s.settings.text("synchronous_commit") != "off":
        proposals.append(
            Proposal(
                "synchronous-commit-off",
                Change(settings={"synchronous_commit": "off"}),
                s.loop.ratio(flush=0.0),
                "rows would be held for a shorter time: not through the flush",
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


SIGNATURE = Signature(
    id="hot-row",
    false_positives=(
        "a benchmark with fewer hot rows than the real load has (TPC-B updates one of `scale`"
        " branches in every transaction); a single long transaction that holds rows (see stall)"
    ),
    examine=examine,
)
