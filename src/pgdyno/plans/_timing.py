"""The time of statements with and without a change, in turn.

Both sides execute the same transactions of the load: in one session where its settings differ, or
the database does, and else in sessions of their own. A prepared statement keeps its plan on each.
Of each transaction the shortest time of a statement counts: what disturbs it on a busy machine only
makes it longer. The mean over the transactions is that of their values. The time outside of the
server is taken off, the shortest of the session. The error of the ratio is that of its mean over
the rounds, by Student's t of the log ratios, or ``NOISE`` where there are too few, and ``PLACE_MS``
where the sides do not alternate in one session.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import stdev
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno._engine import student_t_quantile
from pgdyno.plans import LEAST_MS, NOISE
from pgdyno.plans._session import CUSTOM_PLANS, LoadLikeSession
from pgdyno.record import Place

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction

ROUNDS_MAX = 25
TURNS = 5
"""Times that a session's settings, or its database, are changed, with a fifth of the rounds."""
TURNS_MIN = 3
"""Turns from which on the sides alternate."""
ROUNDS_MIN = 3
"""Rounds below which their spread says nothing."""
PLACE_MS = 0.05
"""Time by which one session's executions may all be longer than another's, by the cores that they
and the client happen to have: 0.14 and 0.11 ms of the same statement in two sessions."""


class StatementTimes(Struct, frozen=True):
    """Mean times of a statement without and with a change, in milliseconds."""

    place: Place
    runs: int
    """Executions on the side with fewer."""
    ms: float
    changed_ms: float
    log_error: float
    """Half the width of the 95 % interval of the log ratio of the two."""


def timed_in_turn(
    base: LoadLikeSession,
    changed: LoadLikeSession,
    transactions: Sequence[SampledTransaction],
    seconds_max: float,
) -> list[StatementTimes]:
    """Execute the transactions in both sessions in turn, for about ``seconds_max``; return the
    times of the statements that both executed.

    Raises psycopg.Error if a connection fails.
    """
    ends_s = time.monotonic() + seconds_max
    sides = (_Side(base), _Side(changed))
    for side in sides:
        side.warm(transactions, ends_s)
    for number in range(ROUNDS_MAX):
        if number and time.monotonic() > ends_s:
            break
        for which, transaction in enumerate(transactions):
            for side in sides if number % 2 else reversed(sides):
                side.execute(which, transaction)
    return _compared(*sides)


def timed_with(
    session: LoadLikeSession,
    settings: Mapping[str, str],
    transactions: Sequence[SampledTransaction],
    seconds_max: float,
) -> list[StatementTimes]:
    """Execute the transactions without and with other settings in turn, in one session, for about
    ``seconds_max``; return their times.

    Raises psycopg.Error if the connection fails or the server refuses a setting.
    """
    base, changed = _Side(session), _Side(session)
    ends_s = time.monotonic() + seconds_max
    for number in range(TURNS):
        if number and time.monotonic() > ends_s:
            break
        for side in (changed, base) if number % 2 else (base, changed):
            with session.changed(settings) if side is changed else nullcontext():
                side.repeat(transactions, seconds_max / (2 * TURNS), ROUNDS_MAX // TURNS)
    return _compared(base, changed, place_ms=0.0)


def timed_within(
    session: LoadLikeSession,
    made: Callable[[], AbstractContextManager[None]],
    transactions: Sequence[SampledTransaction],
    seconds_max: float,
    *,
    turns_max: int = TURNS,
) -> list[StatementTimes]:
    """Execute the transactions without a change and in the block for which it is ``made``, within a
    transaction of the session, in turn, for about ``seconds_max`` without the first making; return
    their times.

    For what other sessions would have to wait for, as for an index. Raises psycopg.Error if the
    connection fails, and Refused if the server refuses the change.
    """
    base, changed = _Side(session), _Side(session)
    turns, ends_s = 0, math.inf
    with session.undone():
        while turns < turns_max and time.monotonic() < ends_s:
            base.repeat(transactions, seconds_max / (2 * turns_max), ROUNDS_MAX // turns_max)
            with made():
                ends_s = min(ends_s, time.monotonic() + seconds_max)
                changed.repeat(transactions, seconds_max / (2 * turns_max), ROUNDS_MAX // turns_max)
            turns += 1
    return _compared(base, changed, place_ms=PLACE_MS if turns < TURNS_MIN else 0.0)


class _Side:
    """A side of a comparison, with its times."""

    def __init__(self, session: LoadLikeSession) -> None:
        self.session = session
        self.way_ms = session.way_ms()
        """Shortest time of a statement outside of the server."""
        self._times_ms: defaultdict[Place, defaultdict[int, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def repeat(
        self, transactions: Sequence[SampledTransaction], seconds_max: float, rounds_max: int
    ) -> None:
        """Execute the transactions so many times, for about ``seconds_max``, and once in any case;
        before that without timing."""
        ends_s = time.monotonic() + seconds_max
        self.warm(transactions, ends_s)
        for number in range(rounds_max):
            if number and time.monotonic() > ends_s:
                break
            for which, transaction in enumerate(transactions):
                self.execute(which, transaction)

    def warm(self, transactions: Sequence[SampledTransaction], ends_s: float) -> None:
        """Execute the transactions once, and one of each script until prepared statements have the
        plan that they keep, without timing."""
        if not self._times_ms:
            self.session.grow_memory()
        for transaction in transactions:
            self.session.execute(transaction)
        if self._times_ms or not self.session.keeps_plans:
            return
        of_scripts = {(each["group"], each["script"]): each for each in transactions}
        for _ in range(CUSTOM_PLANS):
            for transaction in of_scripts.values():
                if time.monotonic() < ends_s:
                    self.session.execute(transaction)

    def execute(self, which: int, transaction: SampledTransaction) -> None:
        """Execute a transaction, and keep its times, and the shortest of the way."""
        self.way_ms = min(self.way_ms, self.session.way_ms())
        for position, ms in self.session.execute(transaction).items():
            place = (transaction["group"], transaction["script"], position)
            self._times_ms[place][which].append(ms)

    def of(self, place: Place, transactions: Collection[int]) -> tuple[float, int]:
        """Return the mean milliseconds of a statement over ``transactions``, and its executions."""
        times_ms = self._times_ms[place]
        runs = sum(len(times_ms[which]) for which in transactions)
        return self._mean_ms([min(times_ms[which]) for which in transactions]), runs

    def each_round(self, place: Place, transactions: Collection[int]) -> Iterator[float]:
        """Yield the mean milliseconds of a statement over ``transactions`` in each whole round."""
        times_ms = self._times_ms[place]
        for once_ms in zip(*(times_ms[which] for which in transactions), strict=False):
            yield self._mean_ms(once_ms)

    def executed(self, place: Place) -> set[int]:
        """Return the transactions in which a statement was executed."""
        return {*self._times_ms.get(place, ())}

    def places(self) -> list[Place]:
        """Return the statements."""
        return sorted(self._times_ms)

    def _mean_ms(self, times_ms: Sequence[float]) -> float:
        return in_server_ms(sum(times_ms) / len(times_ms), self.way_ms)


def _compared(base: _Side, changed: _Side, *, place_ms: float = PLACE_MS) -> list[StatementTimes]:
    if base.session is changed.session:
        # Its way is the same whatever its settings, which may make any statement longer.
        base.way_ms = changed.way_ms = min(base.way_ms, changed.way_ms)
    found = []
    for place in base.places():
        if both := base.executed(place) & changed.executed(place):
            (ms, runs), (changed_ms, others) = base.of(place, both), changed.of(place, both)
            error = _log_error(base.each_round(place, both), changed.each_round(place, both))
            error = math.hypot(error, place_ms / min(ms, changed_ms))
            found.append(StatementTimes(place, min(runs, others), ms, changed_ms, error))
    return found


def in_server_ms(ms: float, way_ms: float) -> float:
    """Return the part of a statement's milliseconds that is the server's, at least that of one that
    reads nothing."""
    return max(LEAST_MS, ms - way_ms)


def _log_error(base_ms: Iterator[float], changed_ms: Iterator[float]) -> float:
    """Return half the width of the 95 % interval of the mean log ratio of rounds."""
    logs = [math.log(after / before) for before, after in zip(base_ms, changed_ms, strict=False)]
    if len(logs) < ROUNDS_MIN:
        return math.log(NOISE)
    return float(student_t_quantile(len(logs) - 1, 0.975) * stdev(logs) / math.sqrt(len(logs)))
