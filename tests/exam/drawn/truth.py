"""What a cause is worth: interleaved slices with it and without it.

Each round measures all arms, every second one in reverse, so that what is planted at the end of a
round need not be planted again for the next one, and a drift of the machine favours no arm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from exam.drawn.model import Fault, ServerFacts
from exam.drawn.world import World
from pgdyno.stats import geometric_mean, paired_effect

WORTH_MIN = 1.15
ROUNDS = 4
ROUNDS_MAX = 8
PLANTED = "planted"


class Truth(Struct, frozen=True):
    """Throughput of an arm relative to that with all causes, with its 95 % interval."""

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def worth_it(self) -> bool:
        """True if undoing the cause certainly gains, and not a little."""
        return self.low > 1.0 and self.ratio >= WORTH_MIN

    @property
    def decided(self) -> bool:
        """True if more pairs would hardly change whether it is worth it."""
        return self.worth_it or self.high < WORTH_MIN


class Measured(Struct, frozen=True):
    """The throughput with all causes, and the truth of each of the other arms."""

    planted_tps: float
    truths: Mapping[str, Truth]


def measured(
    world: World, arms: Mapping[str, Sequence[Fault]], server: ServerFacts, *, until_s: float
) -> Measured:
    """Measure the arms, each a list of what is planted in it; all are compared to the one called
    ``planted``.

    At least ``ROUNDS`` rounds; more until all are decided, as long as there is time (monotonic).
    """
    tps: dict[str, list[float]] = {name: [] for name in arms}
    settles = any(each.costs_planning(server) for faults in arms.values() for each in faults)
    order = list(arms)
    truths: dict[str, Truth] = {}
    for number in range(ROUNDS_MAX):
        began_s = time.monotonic()
        for name in order:
            world.switch(arms[name])
            tps[name].append(max(world.measured(settles=settles).tps, 0.01))
        order.reverse()
        if number + 1 < ROUNDS:
            continue
        truths = {name: _truth(tps[PLANTED], tps[name]) for name in arms if name != PLANTED}
        took_s = time.monotonic() - began_s
        if all(each.decided for each in truths.values()) or time.monotonic() + took_s > until_s:
            break
    return Measured(geometric_mean(tps[PLANTED]), truths)


def _truth(planted: Sequence[float], without: Sequence[float]) -> Truth:
    effect = paired_effect(planted, without)
    return Truth(round(effect.ratio, 3), round(effect.lo, 3), round(effect.hi, 3), effect.pairs)
