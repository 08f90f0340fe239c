"""Proposals of more clients: for closed loops whose clients wait while the server could do more,
and for rates that so few clients cannot carry."""

from __future__ import annotations

import math

from pgdyno.facts.groups import GroupAccount
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal
from pgdyno.rules._pools import AS_GOOD, WORTHWHILE_RATIO
from pgdyno.spec.change import Change

FACTORS = (2, 4, 8, 16, 32)
AT_WORK_SHARE = 0.9
"""Clients at work or waiting, on average, below which they rest."""
PER_CORE_MAX = 8.0
"""Clients per core beyond which the model has not been calibrated."""
CARRIED_SHARE = 0.7
"""Part of the time that clients are to be busy at a rate: in the queue M/M/c the wait for a free
one is shorter than the service itself from 2 clients on."""
_OTHER_SESSIONS = 10
"""Sessions left to others of those that max_connections allows."""


def more_clients(s: Situation, *, specific: bool = False) -> list[Proposal]:
    """Propose the fewest clients that are predicted nearly as much as the most that make sense.

    Empty for open loops and pools, where a client more brings no transaction more, and where no
    number is predicted to pay.
    """
    clients = sum(group.clients for group in s.groups)
    if s.has_open_loop or s.sessions_max < clients:
        return []
    most = max(2.0, PER_CORE_MAX * s.cores)
    factors = [factor for factor in FACTORS if factor * clients <= min(most, _allowed(s))]
    ratios = {factor: s.loop.ratio_of_more(s.in_service * factor) for factor in factors}
    best = max((ratio.low for ratio in ratios.values()), default=0.0)
    if best < WORTHWHILE_RATIO:
        return []
    factor = min(factor for factor, ratio in ratios.items() if ratio.low >= AS_GOOD * best)
    return [
        Proposal(
            remedy_id="client-count",
            change=Change(clients={group.name: group.clients * factor for group in s.groups}),
            predicted_ratio=ratios[factor],
            why="more clients at the same time overlap their waits",
            specific=specific,
        )
    ]


def count_for_rate(s: Situation, account: GroupAccount) -> int:
    """Return the clients that carry the rate of an open loop at today's response time, with room
    for arrivals that come together; no more than the server has sessions for."""
    needed = (account.asked_tps or 0.0) * account.busy_ms / 1000
    count = max(math.ceil(needed / CARRIED_SHARE), account.clients + 1)
    others = sum(group.clients for group in s.groups if group.name != account.name)
    return min(count, math.floor(_allowed(s)) - others)


def clients_for_rate(s: Situation, account: GroupAccount) -> list[Proposal]:
    """Propose ``count_for_rate`` clients; empty if the model predicts that no more gets done, or
    all that is due is done already."""
    count = count_for_rate(s, account)
    due = (account.asked_tps or 0.0) / account.done_tps
    ratio = min(due, ratio_of_count(s, account, count))
    if ratio < WORTHWHILE_RATIO:
        return []
    why = "more clients carry what comes due at the same time"
    change = Change(clients={account.name: count})
    return [
        Proposal(
            remedy_id="client-count", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def ratio_of_count(s: Situation, account: GroupAccount, count: int) -> float:
    """Return the predicted ratio of what can be done with so many clients in the group."""
    group = s.group(account.name)
    more = group.in_service * (count / account.clients - 1)
    return s.loop.ratio_of_more(s.in_service + more) if more > 0 else 1.0


def _allowed(s: Situation) -> float:
    """Return the client sessions that max_connections allows."""
    return (s.settings.number("max_connections") or 100.0) - _OTHER_SESSIONS
