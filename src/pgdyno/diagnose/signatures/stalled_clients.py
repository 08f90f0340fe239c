"""Stalled clients: a client group has transactions under way and ends none for most of the time.

Trigger: a group that is not meant to be idle ended no transaction in intervals that make up at
least ``EMPTY_SHARE`` of the period and at least ``EMPTY_S_MIN``, each with transactions
under way at its end. Where it ended some, there must be at least ``DONE_MIN`` of these in a usual
interval, so that a group of long or rare transactions is not taken for one that stands still.

``stall`` looks at short drops of all clients together and compares with their median, which a group
beside others does not move, and which is zero where all stand still most of the time.

Thresholds: half of the time, where standing still is what the group mostly did; with five in a
usual interval, one without any is chance in less than one of a hundred (Poisson). Confirmed by
injection: LOCK TABLE for 6 of 8 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import duration, figure, percent
from pgdyno.record import Interval
from pgdyno.record.finding import Evidence

EMPTY_SHARE = 0.5
EMPTY_S_MIN = 2.0
DONE_MIN = 5.0
_CAUSES = (
    "relation-lock",
    "advisory-lock",
    "idle-in-transaction",
    "hot-row",
    "batch-update",
    "notify-lock",
    "pooler",
    "sync-replication",
)


class _Standing(Struct, frozen=True):
    """A client group and how long it stood still."""

    group: str
    clients: int
    still_s: float
    seconds: float
    done_usually: float
    """Transactions done in a usual interval in which it did any; 0 if it did none at all."""

    @property
    def share(self) -> float:
        """Part of the period in which the group stood still."""
        return self.still_s / self.seconds if self.seconds else 0.0

    @property
    def stalled(self) -> bool:
        """True if it is not chance, and not what such a load looks like."""
        usual = self.done_usually == 0 or self.done_usually >= DONE_MIN
        return usual and self.share >= EMPTY_SHARE and self.still_s >= EMPTY_S_MIN


def examine(s: Situation) -> Found | Cleared:
    """Examine each group interval by interval."""
    groups = _groups(s)
    worst = max(groups, key=lambda each: (each.stalled, each.share), default=None)
    if worst is None:
        return Cleared("no client group has work", [s.evidence("groups at work", 0, "count")])
    evidence = _evidence(s, worst)
    stood = f"{figure(worst.still_s)} of {figure(worst.seconds)} s"
    if not worst.stalled:
        return Cleared(
            f"clients of {worst.group} ended no transaction in {stood}, the most of all groups",
            evidence,
        )
    clients = sum(each.clients for each in groups)
    of = f" of {worst.group}" if len(groups) > 1 else ""
    return Found(
        sentence=(
            f"the clients{of} stood still for {stood}: transactions were under way,"
            " and none came to an end"
        ),
        share=worst.share * worst.clients / clients if clients else worst.share,
        liftable=1.0,
        momentary=True,
        confidence=0.8,
        evidence=evidence,
        causes=_CAUSES,
    )


def _groups(s: Situation) -> list[_Standing]:
    idle = {account.name for account in s.accounts if account.idle}
    rows = s.run.intervals(s.slice_ids, by=("client_group",))
    names = dict.fromkeys(row.client_group for row in rows if row.client_group not in idle)
    return [
        _standing(str(name), [row for row in rows if row.client_group == name]) for name in names
    ]


def _standing(name: str, rows: Sequence[Interval]) -> _Standing:
    still = [row for row in rows if not (row.done or row.failed) and row.backlog]
    done = [row.done for row in rows if row.done]
    return _Standing(
        name,
        max(row.clients for row in rows),
        sum(row.duration_ms for row in still) / 1000,
        sum(row.duration_ms for row in rows) / 1000,
        float(median(done)) if done else 0.0,
    )


def _evidence(s: Situation, worst: _Standing) -> list[Evidence]:
    return [
        s.evidence(
            f"time without an end of a transaction, {worst.group}",
            worst.share,
            "share",
            f"at least {percent(EMPTY_SHARE)} and {duration(EMPTY_S_MIN)}",
        ),
        s.evidence(
            "transactions in a usual interval with any",
            worst.done_usually,
            "count",
            f"none, or at least {DONE_MIN:g}",
        ),
        s.evidence("clients of the group", worst.clients, "count"),
    ]


SIGNATURE = Signature(
    id="stalled-clients",
    false_positives="a group whose single transactions are meant to last as long as the run",
    examine=examine,
    of_clients=True,
)
