"""Loads with headroom: their rate is held, or their clients rest between transactions.

Every client group that works must be one of these, and no sessions may queue for the cores:

- an open loop that did nearly all transactions that came due (``GroupAccount.rate_held``), and most
  of them without a queue for a free client of ``QUEUED_SHARE`` of their response time: a rate of
  which the clients are just capable is held, but not without a limit;
- a closed loop whose clients rest for at least ``REST_SHARE`` of their time, by the group's think
  time and by pauses within its scripts but outside transaction blocks. A server that took no time
  at all would at most double the throughput of such a load.

A load of others, of which only the server's view is known, is held if it is light
(``LIGHT_SESSIONS``).

The headroom is what the model predicts if all clients were at work all the time.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.facts.groups import MeasuredGroup
from pgdyno.facts.sessions import SPARE_SHARE, sending
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Skip

REST_SHARE = 0.5
LIGHT_SESSIONS = 0.5
"""Sessions at work, on average, below which a load of others is light: even one session that waited
all the time, for a lock that nobody lets go, would be more."""
QUEUED_SHARE = 0.5
"""In the queue M/M/1 the share of the response that is spent waiting is the utilisation: half of it
is half of the possible load, and a response of twice the time of an idle server. Medians are
compared, so that a queue in a few bad moments does not count."""


class Held(Struct, frozen=True):
    """A load that is held, and how much more there seems to be."""

    has_rate: bool
    """True if a rate is held, false if clients rest."""
    throughput_tps: float
    """Of the groups that have a rate, if any has one, else of all."""
    headroom: float | None
    """Expected throughput of the same clients without pauses over that now; None if unknown, as
    it is of a machine whose cores are all busy."""
    busy_share: float | None
    """Share of the cores that is busy; None if it was not recorded."""


def held_load(s: Situation) -> Held | None:
    """Return how the load is held; None if it takes what it can get."""
    if s.is_observed:
        return _light_load(s)
    working = [account for account in s.accounts if not account.idle and account.ledger.done]
    groups = {group.name: group for group in s.groups}
    rates = [account for account in working if account.arrival is not None]
    closed = [groups[a.name] for a in working if a.arrival is None and a.name in groups]
    if not working or not all(account.rate_held for account in rates):
        return None
    if _saturated(s) or any(queues_for_client(s, account.name) for account in rates):
        return None
    if not all(_rests(s, group) for group in closed):
        return None
    cpu = s.cpu_if_recorded
    busy_share = None if cpu is None else cpu.busy_share
    at_rate = sum(groups[a.name].throughput_tps for a in rates if a.name in groups)
    has_spare = cpu is None or cpu.idle_share >= SPARE_SHARE
    headroom = _headroom(s) if has_spare else None
    return Held(bool(rates), at_rate if rates else s.throughput_tps, headroom, busy_share)


def most_ratio(s: Situation) -> float:
    """Return the largest ratio of throughput that any change can bring: that of what is due to what
    is done where all clients have a rate, else infinity."""
    working = [account for account in s.accounts if not account.idle]
    if s.is_observed or not working or any(account.arrival is None for account in working):
        return math.inf
    if all(account.rate_held for account in working):
        return 1.0
    done_tps = sum(account.done_tps for account in working)
    due_tps = sum(account.asked_tps or 0.0 for account in working)
    return max(1.0, due_tps / done_tps) if done_tps > 0 else math.inf


def _light_load(s: Situation) -> Held | None:
    """Return a load of others that is light: nobody knows what they ask for, but so few sessions
    at work, with cores to spare, hardly wait for each other. One that waits for its client to take
    a result is at work, one that waits for the next statement is not."""
    working = s.sessions_at_work - s.sessions("client") + sending(s)
    if working >= LIGHT_SESSIONS or _saturated(s):
        return None
    cpu = s.cpu_if_recorded
    return Held(True, s.throughput_tps, None, None if cpu is None else cpu.busy_share)


def queues_for_client(s: Situation, group: str) -> bool:
    """True if the usual transaction of an open loop waits for a free client most of its time."""
    lag_ns, service_ns = (
        s.run.histogram(kind, s.slice_ids, group=group).percentile(50)
        for kind in ("client_lag", "service")
    )
    late_ns = s.run.histogram("send_late", s.slice_ids).percentile(50)
    queue_ns = max(0, lag_ns - late_ns)
    return queue_ns > QUEUED_SHARE * (queue_ns + service_ns)


def _saturated(s: Situation) -> bool:
    """True if sessions queue for the cores."""
    cpu = s.cpu_if_recorded
    return s.runnable >= s.cores_to_use and (cpu is None or cpu.idle_share < SPARE_SHARE)


def _rests(s: Situation, group: MeasuredGroup) -> bool:
    in_transaction_ms = group.service_ms * s.budget.service_share("client", "late")
    paused_ms = max(0.0, (group.between_statements_ms or 0.0) - in_transaction_ms)
    rest_ms = group.think_ms + paused_ms
    return rest_ms >= REST_SHARE * (group.think_ms + group.response_ms)


def _headroom(s: Situation) -> float | None:
    try:
        pause_s, late_s = (s.budget.parts_ms.get(part, 0.0) / 1000 for part in ("pause", "late"))
        most = max(s.in_service, float(s.sessions_max), 1.0)
        tireless = replace(
            s.loop,
            idle_s=max(0.0, s.loop.idle_s - pause_s),
            rest_s=max(0.0, s.loop.rest_s - late_s),
        )
        return max(1.0, tireless.predict(sessions=most) / s.throughput_tps)
    except Skip:
        return None
