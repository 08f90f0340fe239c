"""The shapes of storms: how many clients there are at which moment, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

SWINGS = 3
"""Times that a sawtooth rises."""
LOW_SHARE = 4
"""Part of the clients that a sawtooth keeps."""
LEAK_STEP_S = 0.1


class Stage(Struct, frozen=True):
    """A part of a storm: so many clients, from one moment to the next."""

    clients: int
    ends_sessions: bool = False
    """True if all sessions are ended when it begins."""
    counts: bool = True
    """True if it is timed until all clients have arrived; else it only comes before."""
    seconds: float | None = None
    """It lasts so long; None: until all have arrived."""


class Shape(Struct, frozen=True):
    """A shape of arrival."""

    title: str
    """In a sentence about ``N clients``."""
    stages: Callable[[int, float], list[Stage]]
    """The stages for so many clients, and the time within which they are to arrive."""
    idle: bool = False
    """True if the clients that arrive only hold connections."""
    at_once_again: bool = False
    """True if a client that fails tries again at once."""


def _herd(clients: int, within_s: float) -> list[Stage]:
    return [Stage(clients)]


def _sawtooth(clients: int, within_s: float) -> list[Stage]:
    low = max(clients // LOW_SHARE, 1)
    swing = [Stage(clients), Stage(low, counts=False, seconds=1.0)]
    return [Stage(low, counts=False), *(SWINGS * swing)]


def _leak(clients: int, within_s: float) -> list[Stage]:
    steps = max(1, min(clients, round(within_s / 2 / LEAK_STEP_S)))
    growing = [
        Stage(clients * step // steps, counts=False, seconds=LEAK_STEP_S)
        for step in range(1, steps)
    ]
    return [*growing, Stage(clients)]


def _retry(clients: int, within_s: float) -> list[Stage]:
    return [Stage(clients, counts=False), Stage(clients, ends_sessions=True)]


SHAPES = {
    "herd": Shape("connect at once", _herd),
    "sawtooth": Shape(f"come and go, {SWINGS} times", _sawtooth),
    "leak": Shape("hold idle connections, one after the other", _leak, idle=True),
    "retry": Shape("lose their sessions and try again at once", _retry, at_once_again=True),
}
