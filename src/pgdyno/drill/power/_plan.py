"""Which power cuts to make of a recording: when, with which sectors, and what is kept of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Keep = Literal["subset", "none", "all", "garbage"]
KEEPS: tuple[Keep, ...] = ("subset", "none", "all", "garbage")
"""What the disk did with what it was not made to keep: some of it in any order, nothing, all, or
something that nobody wrote. ``garbage`` is for disks that break their promises, and only on
request."""

_SECTORS = (4096, 512)
# Of so many cuts in a row one keeps nothing and one everything: the two that a simpler simulator
# would make. Subsets find more.
_ROUND = 8


@dataclass(frozen=True)
class Moment:
    """A time worth a cut."""

    at_ns: int
    why: str
    """pending, flush-edge, mark or random."""


@dataclass(frozen=True)
class Planned:
    """One power cut to be made."""

    number: int
    """From 1, in the order of time."""
    at_ns: int
    why: str
    seed: int
    sector_bytes: int
    keep: Keep

    @property
    def variant(self) -> str:
        """Its kind for results: ``subset-4096``, ``none``."""
        plain = self.keep in ("none", "all")
        return self.keep if plain else f"{self.keep}-{self.sector_bytes}"


def plan_cuts(
    moments: Iterable[Moment],
    seed: int,
    *,
    sector_bytes: int | None = None,
    keep: Keep | None = None,
) -> list[Planned]:
    """A cut for each moment, in the order of time, so that a rolling image goes forward.

    What is not given, the seed decides; a cut's own seed depends on its number alone.
    """
    planned = []
    for number, moment in enumerate(sorted(moments, key=lambda one: one.at_ns), start=1):
        rng = random.Random(f"{seed}/power/{number}")
        own_seed, mixed = rng.getrandbits(31), rng.choice(_SECTORS)
        planned.append(
            Planned(
                number=number,
                at_ns=moment.at_ns,
                why=moment.why,
                seed=own_seed,
                sector_bytes=sector_bytes or mixed,
                keep=keep or _kept(number),
            )
        )
    return planned


def _kept(number: int) -> Keep:
    match number % _ROUND:
        case 3:
            return "none"
        case 6:
            return "all"
        case _:
            return "subset"
