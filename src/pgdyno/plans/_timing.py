"""The time of statements with and without a change, in turn.

Both sides execute the same transactions of the load, in sessions of their own, so that a prepared
statement keeps its plan on each. Of each transaction the shortest time of a statement counts: what
disturbs it on a busy machine only makes it longer. The mean over the transactions is that of their
values. The shortest time of an empty statement is taken off, which is the way to the server and
back, except for ``MESSAGE_MS``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.plans._session import CUSTOM_PLANS, LoadLikeSession

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction

ROUNDS_MAX = 25
MESSAGE_MS = 0.01
"""Time that the server takes for a statement that does nothing, to receive it and to answer: half
of what a prepared select-only transaction takes (see ``rules._cpu_uses``)."""

Place = tuple[str, str, int]
"""Client group, script, and position of a statement in it."""


class StatementTimes(Struct, frozen=True):
    """Mean times of a statement without and with a change, in milliseconds."""

    place: Place
    runs: int
    """Executions on the side with fewer."""
    ms: float
    changed_ms: float


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
        if time.monotonic() > ends_s:
            break
        for which, transaction in enumerate(transactions):
            for side in sides if number % 2 else reversed(sides):
                side.execute(which, transaction)
    return _compared(*sides)


def timed_within(
    session: LoadLikeSession,
    change: Callable[[], None],
    transactions: Sequence[SampledTransaction],
    seconds_max: float,
) -> list[StatementTimes]:
    """Execute the transactions before and after ``change``, which is made and undone in a
    transaction of the session, for about ``seconds_max`` without it; return their times.

    For what other sessions would have to wait for, as for an index. Raises psycopg.Error if the
    connection fails, and Refused if the server refuses the change.
    """
    sides = (_Side(session), _Side(session))
    with session.undone():
        for number, side in enumerate(sides):
            if number:
                change()
            ends_s = time.monotonic() + seconds_max / 2
            side.warm(transactions, ends_s)
            while time.monotonic() < ends_s and side.rounds < ROUNDS_MAX:
                for which, transaction in enumerate(transactions):
                    side.execute(which, transaction)
    return _compared(*sides)


class _Side:
    """A side of a comparison, with its shortest times."""

    def __init__(self, session: LoadLikeSession) -> None:
        self._session = session
        self._way_ms = session.round_trip_ms()
        self._best: defaultdict[Place, dict[int, float]] = defaultdict(dict)
        self._runs: defaultdict[Place, int] = defaultdict(int)

    @property
    def rounds(self) -> int:
        """Executions of the statement that was executed most often."""
        return max(self._runs.values(), default=0)

    def warm(self, transactions: Sequence[SampledTransaction], ends_s: float) -> None:
        """Execute the transactions until prepared statements have the plan that they keep, and
        once in any case, without timing."""
        for number in range(CUSTOM_PLANS + 1):
            for transaction in transactions:
                if not number or time.monotonic() < ends_s:
                    self._session.execute(transaction)

    def execute(self, which: int, transaction: SampledTransaction) -> None:
        """Execute a transaction, and keep its shortest times, and that of the way."""
        self._way_ms = min(self._way_ms, self._session.round_trip_ms())
        for position, ms in self._session.execute(transaction).items():
            place = (transaction["group"], transaction["script"], position)
            best = self._best[place]
            best[which] = min(ms, best.get(which, ms))
            self._runs[place] += 1

    def of(self, place: Place, transactions: Collection[int]) -> tuple[float, int]:
        """Return the mean milliseconds of a statement over ``transactions``, and its executions."""
        best = self._best[place]
        mean = sum(best[which] for which in transactions) / len(transactions)
        return max(0.0, mean - self._way_ms) + MESSAGE_MS, self._runs[place]

    def executed(self, place: Place) -> set[int]:
        """Return the transactions in which a statement was executed."""
        return {*self._best.get(place, ())}

    def places(self) -> list[Place]:
        """Return the statements."""
        return sorted(self._best)


def _compared(base: _Side, changed: _Side) -> list[StatementTimes]:
    found = []
    for place in base.places():
        if both := base.executed(place) & changed.executed(place):
            (ms, runs), (changed_ms, others) = base.of(place, both), changed.of(place, both)
            found.append(StatementTimes(place, min(runs, others), ms, changed_ms))
    return found
