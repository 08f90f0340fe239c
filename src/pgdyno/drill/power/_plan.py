"""Plan of the power cuts of a recording: times, sector sizes, and treatment of pending sectors."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Keep = Literal["subset", "none", "all", "garbage"]
KEEPS: tuple[Keep, ...] = ("subset", "none", "all", "garbage")
"""Treatment of the pending sectors by the disk: a subset of them is written, none, all, or some
with content that nobody wrote. ``garbage`` simulates disks that break their guarantees, and is only
used on request."""

_SECTORS = (4096, 512)
# Of each 8 cuts one keeps nothing and one everything; the others keep subsets, which find more.
_ROUND = 8


class Moment(Struct, frozen=True):
    """A time for a cut."""

    at_ns: int
    why: str
    """pending, flush-edge, mark or random."""


class Planned(Struct, frozen=True):
    """A planned power cut."""

    number: int
    """Number from 1, in the order of time."""
    at_ns: int
    why: str
    seed: int
    sector_bytes: int
    keep: Keep

    @property
    def variant(self) -> str:
        """The variant in results, such as ``subset-4096`` or ``none``."""
        whole = self.keep in ("none", "all")
        return self.keep if whole else f"{self.keep}-{self.sector_bytes}"


def plan_cuts(
    moments: Iterable[Moment],
    seed: int,
    *,
    sector_bytes: int | None = None,
    keep: Keep | None = None,
) -> list[Planned]:
    """Plan a cut for each moment, in the order of time, as rolling images require.

    The seed decides what is not given; the seed of a cut depends only on its number.
    """
    planned = []
    for number, moment in enumerate(sorted(moments, key=lambda moment: moment.at_ns), start=1):
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
