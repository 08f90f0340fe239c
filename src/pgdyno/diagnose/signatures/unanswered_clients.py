"""Clients without an answer: some of a group wait to the end, while its others go on.

Such a wait has no end and so no response time: percentiles are of those who got an answer.

Trigger: at the end of a period, clients have waited for the answer to one statement or request for
at least ``WAITED_SHARE`` of the period and ``UNANSWERED_S_MIN``, and ``LONGER_TIMES`` as long as
the longest response of their group; and they are at least ``CLIENTS_SHARE`` of it, but not all. Of
several slices the last one is judged. How many they are is the fewest in any second since the
first of them began to wait.

Thresholds: half, where waiting is what the client mostly did; ten times the longest response, as
statements of one script that take so much longer than all others wait for something else; one
hundredth, as fewer would not change p99. Confirmed by injection: a lock that is held for good, and
1 of 8 clients that waits for it.

Look-alikes: all clients of a group that stand still are the finding ``stalled_clients``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record import GroupInterval
from pgdyno.record.finding import Evidence

WAITED_SHARE = 0.5
UNANSWERED_S_MIN = 2.0
"""From here on the load engine counts a client as one without an answer."""
LONGER_TIMES = 10.0
CLIENTS_SHARE = 0.01
_CAUSES = (
    *("hot-row", "batch-update", "advisory-lock", "relation-lock", "idle-in-transaction"),
    *("prepared-transactions", "front-accept-queue", "pooler-client-limit", "pooler"),
)


class _Waiting(Struct, frozen=True):
    """Clients of a group that wait at the end of a period."""

    group: str
    clients: int
    waiting: int
    waited_s: float
    """The longest of their waits so far."""
    seconds: float
    response_s_max: float
    """The longest response of the group in the period; 0 if none came."""

    @property
    def share(self) -> float:
        """Part of the group's time that these waits take."""
        part = min(1.0, self.waited_s / self.seconds) if self.seconds else 0.0
        return part * self.waiting / self.clients if self.clients else 0.0

    @property
    def unanswered(self) -> bool:
        """True if so many wait for so long that response times hide it."""
        least_s = max(
            WAITED_SHARE * self.seconds, UNANSWERED_S_MIN, LONGER_TIMES * self.response_s_max
        )
        some = CLIENTS_SHARE * self.clients <= self.waiting < self.clients
        return bool(self.waiting) and some and self.waited_s >= least_s


def examine(s: Situation) -> Found | Cleared:
    """Examine the clients that wait at the end, group by group."""
    groups = _groups(s)
    worst = max(groups, key=lambda each: (each.unanswered, each.share), default=None)
    if worst is None:
        return Cleared("no client group has work", [s.evidence("groups at work", 0, "count")])
    evidence = _evidence(s, worst)
    if not worst.unanswered:
        return Cleared("no client waits for an answer much longer than all others", evidence)
    of = f" of {worst.group}" if len(groups) > 1 else ""
    return Found(
        sentence=(
            f"{worst.waiting:,} of {counted(worst.clients, 'client', 'clients')}{of} got no answer"
            f" in the last {duration(worst.waited_s)}: response times are those of the others,"
            f" {figure(1000 * worst.response_s_max)} ms at most"
        ),
        share=worst.share,
        liftable=1.0,
        momentary=True,
        confidence=0.8,
        evidence=evidence,
        causes=_CAUSES,
    )


def _groups(s: Situation) -> list[_Waiting]:
    rows = s.run.group_intervals(s.slice_ids[-1:])
    groups = (
        [row for row in rows if row.client_group == account.name]
        for account in s.accounts
        if not account.idle
    )
    return [_waiting(s, mine) for mine in groups if mine]


def _waiting(s: Situation, rows: Sequence[GroupInterval]) -> _Waiting:
    """Return the clients that wait at the end of the last slice, by a group's ``rows`` of it."""
    last = rows[-1]
    waited_s = last.unanswered_us_max / 1e6
    ended_ms = last.at_ms + last.duration_ms
    counted_ms = ended_ms - 1000 * (waited_s - UNANSWERED_S_MIN)
    since = [row.unanswered for row in rows if row.at_ms >= counted_ms]
    response = s.run.histogram("response", s.slice_ids[-1:], group=last.client_group)
    return _Waiting(
        group=last.client_group,
        clients=last.clients,
        waiting=min((*since, last.unanswered)),
        waited_s=waited_s,
        seconds=sum(row.duration_ms for row in rows) / 1000,
        response_s_max=response.max / 1e9,
    )


def _evidence(s: Situation, worst: _Waiting) -> list[Evidence]:
    bar = (
        f"at least {percent(WAITED_SHARE)} of the period, {duration(UNANSWERED_S_MIN)} and"
        f" {LONGER_TIMES:g} times the longest response"
    )
    least = f"at least {percent(CLIENTS_SHARE)} of the group, and not all"
    return [
        s.evidence(
            f"clients without an answer at the end, {worst.group}", worst.waiting, "count", least
        ),
        s.evidence("longest wait of these", worst.waited_s, "s", bar),
        s.evidence("longest response of the group", 1000 * worst.response_s_max, "ms"),
        s.evidence("clients of the group", worst.clients, "count"),
    ]


SIGNATURE = Signature(
    id="unanswered-clients",
    false_positives=(
        "a statement that is meant to take much longer than the others of its group, and happened"
        " to be under way at the end"
    ),
    examine=examine,
    of_clients=True,
)
