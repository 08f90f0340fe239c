"""Proposals of other numbers of clients: more, for closed loops whose clients wait while the server
could do more and for rates that so few clients cannot carry; fewer, for loads whose clients mostly
wait for each other.

Where sessions queue for one thing, its turns and not their number decide the throughput: those
that leave would have waited. Of N sessions of which W wait on average, N - W suffice if turns come
evenly, and a few more if they come at random. In a closed loop this is the queue M/M/1//N: a
transaction spends the time U / X in its turns and (N - W - U) / X elsewhere, X being the
throughput. U, the utilisation, is what makes mean value analysis (M. Reiser and S. Lavenberg, JACM
27, 1980) give X with N sessions; with it, the same gives the throughput of fewer.

It explains a load whose 768, 384 and 192 sessions did the same work within 5 %, while waits for
LWLock:BufferMapping went from most of the time to hardly any. Waits that only shrink in proportion
to the sessions (see ``facts.model``) would have cost a large part of the throughput.

With half of the clients at the same throughput a transaction takes half of the time: by Little's
law the response time is clients / throughput. Throughput with fewer sessions is predicted twice. If
the sessions wait in one queue, those that leave would have waited there
(``ratio_of_fewer``); if each contends with each, waits shrink in proportion or faster
(``facts.model``). The larger ratio is the prediction, the other one the lower end of what it may
be, and a trial decides.

Clients that go through a pool gain nothing: they would wait for a connection instead. A smaller
pool is then advice. Nor is anything proposed for a rate, or for clients that rest: fewer of these
would do less.
"""

from __future__ import annotations

import math

from msgspec import Struct

from pgdyno import numbers
from pgdyno.facts.groups import GroupAccount
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal
from pgdyno.rules._pools import AS_GOOD, WORTHWHILE_RATIO
from pgdyno.spec.change import Change
from pgdyno.stats.prediction import Prediction

FACTORS = (2, 4, 8, 16, 32)
AT_WORK_SHARE = 0.9
"""Clients at work or waiting, on average, below which they rest."""
QUEUED_BETWEEN = 0.25
"""Part of the time of messages that may be a queue in whatever stands between clients and server:
through a relay, of seven pairs, twice the clients had 1.6 to 2.0 times the throughput, and four
times 2.5 and 3.7."""
FULL_SHARE = 0.8
"""Part of the cores from which on they work more slowly the busier they are: they share caches, and
often a physical core."""
LAST_CORES_PART = 0.25
"""Least part of the predicted gain that is certain where it fills the cores: of eight pairs with
predictions of 1.2 to 1.7, three had 0.6 to 0.7 of it, and five 0.2 or less."""
PER_CORE_MAX = 8.0
"""Clients per core beyond which the model has not been calibrated."""
CARRIED_SHARE = 0.7
"""Part of the time that clients are to be busy at a rate: in the queue M/M/c the wait for a free
one is shorter than the service itself from 2 clients on."""
_OTHER_SESSIONS = 10
"""Sessions left to others of those that max_connections allows."""
_ROUNDS = 30
FACTOR = 2
"""Clients are halved, and where that helps, halved again in the next step: a queue tells how many
sessions are too many only as long as it is there."""
THROUGHPUT_MIN = 0.9
"""Predicted ratio of throughput below which fewer clients are not proposed. The load of 768 to 192
sessions (see ``ratio_of_fewer``) gave up less than 5 % for a quarter of them; an investigation
tries only what is predicted to cost less than what matters."""
RESPONSE_MAX = 0.9
"""Predicted ratio of the response time above which fewer clients are not proposed."""


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
    ratios = {factor: _ratio_of_more(s, factor) for factor in factors}
    best = max((ratio.low for ratio in ratios.values()), default=0.0)
    if best < WORTHWHILE_RATIO:
        return []
    factor = min(factor for factor, ratio in ratios.items() if ratio.low >= AS_GOOD * best)
    return [
        Proposal(
            remedy_id="client-count",
            change=Change(clients={group.name: group.clients * factor for group in s.groups}),
            predicted_ratio=_on_full_cores(s, ratios[factor]),
            why="more clients at the same time overlap their waits",
            specific=specific,
        )
    ]


def _ratio_of_more(s: Situation, factor: int) -> Prediction:
    """Return the predicted ratio with ``factor`` times the clients. At the cautious end the queue
    for a core grows as they do, as that of clients that come together does; and so does
    ``QUEUED_BETWEEN`` of the time of messages."""
    loop = s.loop_of_clients
    ratio = loop.ratio_of_more(loop.sessions * factor)
    queued = s.budget.share("ready") + QUEUED_BETWEEN * s.budget.share("between")
    together = factor / (1.0 + (factor - 1) * queued)
    return Prediction(ratio, min(ratio.low, together), ratio.high)


def _on_full_cores(s: Situation, ratio: Prediction) -> Prediction:
    """Return the ratio with ``LAST_CORES_PART`` at its cautious end, if it fills the cores."""
    cpu = s.cpu_if_recorded
    if cpu is None or ratio.low * cpu.busy_share < FULL_SHARE:
        return ratio
    return Prediction(ratio, 1.0 + LAST_CORES_PART * (ratio.low - 1.0), ratio.high)


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
    ratio = ratio_of_count(s, account, count).limited(due)
    if ratio < WORTHWHILE_RATIO:
        return []
    ratio = _on_full_cores(s, ratio)
    why = "more clients carry what comes due at the same time"
    change = Change(clients={account.name: count})
    return [
        Proposal(
            remedy_id="client-count", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def ratio_of_count(s: Situation, account: GroupAccount, count: int) -> Prediction:
    """Return the predicted ratio of what can be done with so many clients in the group."""
    loop, group = s.loop_of_clients, s.group(account.name)
    more = group.in_connections * (count / account.clients - 1)
    return loop.ratio_of_more(loop.sessions + more) if more > 0 else Prediction(1.0)


def _allowed(s: Situation) -> float:
    """Return the client sessions that max_connections allows."""
    return (s.settings.number("max_connections") or 100.0) - _OTHER_SESSIONS


def ratio_of_fewer(sessions: float, waiting: float, fewer: float) -> float:
    """Return the throughput of ``fewer`` sessions relative to that of ``sessions``, of which
    ``waiting`` wait in a queue on average; at most 1."""
    whole = max(2, round(sessions))
    without_queue = max(1.0, whole * (1.0 - waiting / sessions))
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if _throughput(whole, middle, without_queue - middle) > 1.0:
            low = middle
        else:
            high = middle
    wanted = max(1.0, fewer * whole / sessions)
    below = math.floor(wanted)
    of_below, of_above = (
        _throughput(count, high, without_queue - high) for count in (below, below + 1)
    )
    return min(1.0, of_below + (wanted - below) * (of_above - of_below))


def _throughput(sessions: int, turn: float, elsewhere: float) -> float:
    """Return transactions per unit of time, of which each has one turn."""
    queue = throughput = 0.0
    for count in range(1, sessions + 1):
        at_queue = turn * (1.0 + queue)
        throughput = count / (elsewhere + at_queue)
        queue = throughput * at_queue
    return throughput


class _Prediction(Struct, frozen=True):
    """Predicted effect of fewer sessions, relative to now."""

    throughput: float
    throughput_low: float
    part: float
    """Part of the sessions that stay."""

    @property
    def response(self) -> float:
        """Ratio of the response time, by Little's law."""
        return self.part / self.throughput

    @property
    def words(self) -> str:
        low = ""
        if numbers.ratio(self.throughput_low) != numbers.ratio(self.throughput):
            low = f" ({numbers.ratio(self.throughput_low)} if waits only shrink with their number)"
        return (
            f"{numbers.ratio(self.throughput)} the throughput{low} and, as response time is clients"
            f" / throughput (Little's law), {numbers.ratio(self.response)} the response time"
        )


def fewer_clients(s: Situation, waiting: float, what: str) -> list[Proposal]:
    """Propose half of the clients where ``waiting`` sessions wait for ``what``, besides those that
    wait for a core; empty where throughput is predicted to fall, or clients share a pool."""
    if _pooled(s) or not _may_be_fewer(s):
        return []
    fewer = {group.name: -(-group.clients // FACTOR) for group in s.groups}
    now, left = sum(group.clients for group in s.groups), sum(fewer.values())
    predicted = _predicted(s, waiting, left / now)
    if predicted is None:
        return []
    return [
        Proposal(
            remedy_id="client-count",
            change=Change(clients=fewer),
            predicted_ratio=predicted.throughput,
            why=f"{numbers.figure(waiting)} of {numbers.figure(s.in_service)} sessions wait for"
            f" {what}, so that {left} of {now} clients are predicted {predicted.words}",
            predicted_response_ratio=predicted.response,
        )
    ]


def fewer_advice(s: Situation, waiting: float) -> str:
    """Return the same as advice, for a pool if clients share one; '' where throughput is predicted
    to fall."""
    if not _may_be_fewer(s):
        return ""
    left = -(-s.sessions_max // FACTOR)
    predicted = _predicted(s, waiting, left / s.sessions_max)
    if predicted is None:
        return ""
    if _pooled(s):
        return (
            f"{left} pooled connections instead of {s.sessions_max} are predicted"
            f" {numbers.ratio(predicted.throughput)} the throughput; clients then wait for a"
            " connection instead"
        )
    return f"{left} of {s.sessions_max} clients are predicted {predicted.words}"


def _may_be_fewer(s: Situation) -> bool:
    """True if all clients are at work all the time, and there are enough of them."""
    if s.has_open_loop or s.sessions_max < FACTOR:
        return False
    return s.in_service >= AT_WORK_SHARE * s.sessions_max


def _pooled(s: Situation) -> bool:
    return s.sessions_max < sum(group.clients for group in s.groups)


def _predicted(s: Situation, waiting: float, part: float) -> _Prediction | None:
    """Return the prediction for ``part`` of the sessions; None if it is no gain."""
    ready = s.in_service * s.budget.service_share("ready")
    queue = ratio_of_fewer(s.in_service, min(waiting + ready, s.in_service), part * s.in_service)
    each = s.loop.ratio(sessions=part * s.in_service)
    found = _Prediction(max(queue, each), min(queue, each), part)
    worth_it = found.throughput >= THROUGHPUT_MIN and found.response <= RESPONSE_MAX
    return found if worth_it else None
