"""Cells, causes and cases of the exam.

A seed gives one case for each cause and version. The case's intensity, random numbers and half come
from a hash of its name, so that they are the same on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from exam.scene import Scene

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "exam"
INTENSITIES = (1.0, 0.5, 2.0)
BLAMES_NOTHING = ("held", "nothing-found")
"""Verdicts without a bottleneck."""
Half = Literal["calibration", "held_out"]
Fields = dict[str, Any]


class Proof(Struct, frozen=True):
    """Evidence, from counters that no signature reads, that the fault was there."""

    counter: str
    """Name of the counter and what it read, for people."""
    holds: bool
    owned: float | None = None
    """Part of the clients, 0 to 1, that the fault held up by the harness's own count; ``None`` for
    a fault that holds nobody up yet."""


Inject = Callable[[Fields, contextlib.ExitStack], Mapping[str, Any]]
"""Set up what a spec cannot express; may change the spec's fields, and gives the proof its facts;
``begin`` among them is called when the load is about to start. ``ExitStack`` undoes it."""


def nothing_more(fields: Fields, stack: contextlib.ExitStack) -> Mapping[str, Any]:
    """Inject nothing: the spec itself holds the fault."""
    return {}


class Cause(Struct, frozen=True):
    """A cause of a limit, or of none. Its spec is ``scenarios/exam/CELL/NAME.toml``."""

    name: str
    accepts: tuple[str, ...]
    """Verdicts that are right; for a healthy load those that blame nothing."""
    prove: Callable[[Scene], Proof]
    scaled: tuple[str, ...] = ()
    """Dotted keys of the spec whose first number is multiplied by the intensity."""
    divided: tuple[str, ...] = ()
    """Dotted keys of the spec whose first number is divided by the intensity."""
    inject: Inject = nothing_more
    versions: tuple[int, ...] = (18, 15)
    healthy: bool = False


class Cell(Struct, frozen=True):
    """Causes that look alike from outside, at about the same throughput."""

    name: str
    causes: tuple[Cause, ...]


class Case(Struct, frozen=True):
    """A cause at a seed on a version."""

    cell: str
    cause: Cause
    seed: int
    version: int

    @property
    def name(self) -> str:
        """Name by which a finished case is recognised."""
        return f"{self.cell}/{self.cause.name}/{self.seed}/{self.version}"

    def _hash(self, *more: object) -> int:
        text = "/".join(map(str, (self.cell, self.cause.name, self.seed, *more)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    @property
    def half(self) -> Half:
        """The half that it belongs to; the versions of a seed lie in different halves."""
        place = (self._hash() + (18, 15).index(self.version)) % 2
        return ("calibration", "held_out")[place]

    @property
    def intensity(self) -> float:
        """Factor on the strength of the fault."""
        if not (self.cause.scaled or self.cause.divided):
            return 1.0
        return INTENSITIES[self._hash("intensity", self.version) % len(INTENSITIES)]

    @property
    def random_seed(self) -> int:
        """Seed of the load's random numbers."""
        return self._hash("random", self.version) % (1 << 32)


def cases_of(
    cells: list[Cell], *, seeds: int, versions: tuple[int, ...], pattern: str
) -> Iterator[Case]:
    """Yield the cases of the seeds 1 to ``seeds`` whose cell, or ``CELL/CAUSE``, matches one of the
    patterns, which commas separate."""
    for seed in range(1, seeds + 1):
        for cell in cells:
            for cause in cell.causes:
                if _matches(cell, cause, pattern):
                    chosen = [each for each in cause.versions if each in versions]
                    yield from (Case(cell.name, cause, seed, version) for version in chosen)


def _matches(cell: Cell, cause: Cause, pattern: str) -> bool:
    names = (cell.name, f"{cell.name}/{cause.name}")
    return any(fnmatchcase(name, each) for name in names for each in pattern.split(","))
