"""The same drill on two servers: what differs, by tests of the cuts.

Amounts are compared by Mann and Whitney's test of ranks, shares by Fisher's exact test, both
two-sided. With several questions asked of the same cuts, each must pass at its part
of the level (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pgdyno._engine import fisher_exact
from pgdyno.drill.model import Cut, DrillResult, figure
from pgdyno.stats import mann_whitney

LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """One question asked of two drills."""

    what: str
    """lost, lost_ms, recovery_s: medians per cut; damaged: the share of cuts."""
    here: float
    there: float
    p: float
    differs: bool
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """For results."""
        return {
            "what": self.what,
            "here": round(self.here, 4),
            "there": round(self.there, 4),
            "p": float(f"{self.p:.3g}"),
            "differs": self.differs,
            "sentence": self.sentence,
        }


def comparison(result: DrillResult, against: DrillResult) -> dict[str, Any]:
    """What a result says besides, when the same drill was done on another server."""
    return {
        "against": against.as_drill(),
        "differences": tuple(each.to_json() for each in differences(result, against)),
    }


def differences(result: DrillResult, against: DrillResult) -> list[Difference]:
    """What was asked of the two, in which there was anything to compare."""
    sides = [[cut for cut in each.cuts if cut.outcome != "no-fault"] for each in (result, against)]
    if not all(sides):
        return []
    names = server_names(result, against)
    asked = [
        _amounts("lost", "lost commits", "", sides, names),
        _amounts("lost_ms", "lost commits reach back", " ms", sides, names),
        _amounts("recovery_s", "recovery", " s", sides, names),
        _damage(sides, names),
    ]
    return [each for each in asked if each is not None]


def server_names(result: DrillResult, against: DrillResult) -> list[str]:
    """What tells the two servers apart: their versions, if these differ."""
    versions = [each.server_version for each in (result, against)]
    if versions[0] != versions[1]:
        return versions
    return [f"{versions[0]} (the first)", f"{versions[1]} (the second)"]


_QUESTIONS = 4


def _amounts(
    what: str, noun: str, unit: str, sides: Sequence[Sequence[Cut]], names: Sequence[str]
) -> Difference | None:
    here, there = (
        [value for cut in cuts if (value := _of(cut, what)) is not None] for cuts in sides
    )
    if not here or not there:
        return None
    p = mann_whitney(here, there)
    differs = p < LEVEL / _QUESTIONS
    medians = median(here), median(there)
    sentence = (
        f"{noun}: median {figure(medians[0])}{unit} on {names[0]} and"
        f" {figure(medians[1])}{unit} on {names[1]}: {_verdict(p, differs)}"
    )
    return Difference(what, *medians, p, differs, sentence)


def _of(cut: Cut, what: str) -> float | None:
    if what == "recovery_s":
        return cut.verified.recovery_s if cut.verified else None
    return None if cut.ledger is None else float(getattr(cut.ledger, what))


def _damage(sides: Sequence[Sequence[Cut]], names: Sequence[str]) -> Difference:
    bad = [sum(cut.outcome in ("corrupt", "refused") for cut in cuts) for cuts in sides]
    good = [len(cuts) - number for cuts, number in zip(sides, bad, strict=True)]
    p = fisher_exact([*bad, *good])
    differs = p < LEVEL / _QUESTIONS
    sentence = (
        f"corrupt or refused to start: {bad[0]} of {len(sides[0])} on {names[0]} and {bad[1]} of"
        f" {len(sides[1])} on {names[1]}: {_verdict(p, differs)}"
    )
    shares = [number / len(cuts) for number, cuts in zip(bad, sides, strict=True)]
    return Difference("damaged", shares[0], shares[1], p, differs, sentence)


def _verdict(p: float, differs: bool) -> str:
    return f"a difference (p = {p:.2g})" if differs else f"no difference seen (p = {p:.2g})"
