"""Proposals of fewer clients, for loads whose clients mostly wait for each other.

With half of the clients at the same throughput a transaction takes half of the time: by Little's
law the response time is clients / throughput. Throughput with fewer sessions is predicted twice. If
the sessions wait in one queue, those that leave would have waited there
(``_single_queue_model``); if each contends with each, waits shrink in proportion or faster
(``facts.model``). The larger ratio is the prediction, the other one the lower end of what it may
be, and a trial decides.

Clients that go through a pool gain nothing: they would wait for a connection instead. A smaller
pool is then advice. Nor is anything proposed for a rate, or for clients that rest: fewer of these
would do less.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno import numbers
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Proposal
from pgdyno.rules._more_clients import AT_WORK_SHARE
from pgdyno.rules._single_queue_model import ratio_of_fewer
from pgdyno.spec.change import Change

FACTOR = 2
"""Clients are halved, and where that helps, halved again in the next step: a queue tells how many
sessions are too many only as long as it is there."""
THROUGHPUT_MIN = 0.9
"""Predicted ratio of throughput below which fewer clients are not proposed. The load of 768 to 192
sessions (see ``_single_queue_model``) gave up less than 5 % for a quarter of them; an investigation
tries only what is predicted to cost less than what matters."""
RESPONSE_MAX = 0.9
"""Predicted ratio of the response time above which fewer clients are not proposed."""


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
