"""The same drill on two servers: their differences, by tests of the cuts.

Amounts are compared by Mann and Whitney's test of ranks, shares by Fisher's exact test, both
two-sided. The cuts are compared in several respects, so each test must pass at its part of the
level (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, TypedDict

from pgdyno._engine import fisher_exact
from pgdyno.numbers import duration
from pgdyno.record.cut import Cut
from pgdyno.results.drill import Difference, Drill
from pgdyno.stats import mann_whitney

LEVEL = 0.05
_TESTS = 4
_Amount = Literal["lost", "lost_ms", "recovery_s"]


class Comparison(TypedDict):
    """Members of a result when the same drill was done on another server."""

    against: Drill
    differences: tuple[Difference, ...]


def comparison(result: Drill, against: Drill) -> Comparison:
    """Return the members that ``result`` has in addition, with the same drill in ``against``."""
    return {
        "against": against,
        "differences": tuple(differences(result, against)),
    }


def differences(result: Drill, against: Drill) -> list[Difference]:
    """Return the tests of the two drills for which both have data."""
    sides = [[cut for cut in each.cuts if cut.outcome != "no-fault"] for each in (result, against)]
    if not all(sides):
        return []
    names = server_names(result, against)
    found = [
        _amounts("lost", "lost commits", "{:,.10g}".format, sides, names),
        _amounts("lost_ms", "lost commits reach back", _reach, sides, names),
        _amounts("recovery_s", "recovery", duration, sides, names),
        _damage(sides, names),
    ]
    return [each for each in found if each is not None]


def server_names(result: Drill, against: Drill) -> list[str]:
    """Return the names of the two servers: their versions, if these differ."""
    versions = [each.server_version for each in (result, against)]
    if versions[0] != versions[1]:
        return versions
    return [f"{versions[0]} (the first)", f"{versions[1]} (the second)"]


def _amounts(
    what: _Amount,
    noun: str,
    spell: Callable[[float], str],
    sides: Sequence[Sequence[Cut]],
    names: Sequence[str],
) -> Difference | None:
    here, there = (
        [value for cut in cuts if (value := _amount_of(cut, what)) is not None] for cuts in sides
    )
    if not here or not there:
        return None
    p = mann_whitney(here, there)
    medians = median(here), median(there)
    sentence = (
        f"{noun}: median {spell(medians[0])} on {names[0]} and {spell(medians[1])} on {names[1]}"
    )
    return _difference(what, medians, p, sentence)


def _reach(lost_ms: float) -> str:
    return duration(lost_ms / 1000)


def _amount_of(cut: Cut, what: _Amount) -> float | None:
    if what == "recovery_s":
        return cut.recovery_s
    return None if cut.ledger is None else float(getattr(cut.ledger, what))


def _damage(sides: Sequence[Sequence[Cut]], names: Sequence[str]) -> Difference:
    bad = [sum(cut.outcome in ("corrupt", "refused") for cut in cuts) for cuts in sides]
    good = [len(cuts) - number for cuts, number in zip(sides, bad, strict=True)]
    sentence = (
        f"corrupt or refused to start: {bad[0]} of {len(sides[0])} on {names[0]} and {bad[1]} of"
        f" {len(sides[1])} on {names[1]}"
    )
    shares = bad[0] / len(sides[0]), bad[1] / len(sides[1])
    return _difference("damaged", shares, fisher_exact([*bad, *good]), sentence)


def _difference(
    what: Literal[_Amount, "damaged"], values: tuple[float, float], p: float, sentence: str
) -> Difference:
    differs = p < LEVEL / _TESTS
    verdict = "a difference" if differs else "no difference seen"
    return Difference(
        what=what,
        here=values[0],
        there=values[1],
        p=float(f"{p:.3g}"),
        differs=differs,
        sentence=f"{sentence}: {verdict} (p = {p:.2g})",
    )
