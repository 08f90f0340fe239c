"""The type of a rule, and the list of all rules.

A rule judges one bottleneck or one fault. Its function takes the facts that it judges, of a load (a
:class:`~pgdyno.facts.situation.Situation`) or of the looks of a check (a
:class:`~pgdyno.facts.sight.Sight`), and returns :class:`Found` or :class:`Cleared`; it, or the
facts, raises ``Skip`` if something that it needs is not there. It is added by a function under
:func:`rule` in a file of this directory; nothing else lists it. Its docstring gives the trigger,
and the thresholds with their sources, and is its section in the reference of findings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from msgspec import Struct

from pgdyno.facts.budget import Part
from pgdyno.facts.sight import Sight
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Evidence, Proposal, Severity
from pgdyno.registry import by_name, held_by
from pgdyno.stats.prediction import Prediction

Facts = TypeVar("Facts")


class Found(Struct, frozen=True):
    """The bottleneck, or the fault, is there."""

    sentence: str
    confidence: float
    evidence: Sequence[Evidence]
    removable_share: float = 0.0
    """Part of the response time that would go if the limit were lifted, 0 to 1, by the model."""
    severity: Severity | None = None
    """None: that of its share of the response time."""
    causes: Sequence[str] = ()
    proposals: Sequence[Proposal] = ()
    gain: Prediction | None = None
    """Predicted ratio of throughput without it, of work that makes the waits of others longer too,
    in place of ``removable_share``; proposals have their own."""
    advice: str = ""
    """Measures that pgdyno cannot take itself, such as a change of the application."""
    commands: Sequence[str] = ()
    """SQL or shell commands that remedy it, to review before running them."""
    parts: Sequence[Part] = ()
    """Parts of the latency budget that it explains; together they are its share."""
    share: float | None = None
    """Share of the mean response time, 0 to 1, where it is not that of ``parts``."""
    momentary: bool = False
    """True if it lasts for moments only, which a load may have that holds its rate on average.
    Ranked behind every finding with a larger share of the time of the whole run."""
    masks_other_gains: bool = False
    """True if it takes what lifting other limits would need, so that their predicted gains are too
    small to compare with its own: ranked behind every finding with a larger share."""
    causes_distrust: bool = False
    """True if it makes every other finding doubtful and is ranked first."""


class Cleared(Struct, frozen=True):
    """The bottleneck, or the fault, was looked for and is not there."""

    sentence: str
    evidence: Sequence[Evidence] = ()
    parts: Sequence[Part] = ()
    """Parts of the latency budget that it judges: while small, they count as named."""


class Rule(Struct, Generic[Facts], frozen=True):
    """The rule for one bottleneck, or for one fault."""

    id: str
    examine: Callable[[Facts], Found | Cleared]
    text: str
    """Its docstring."""
    false_positives: str
    looks: tuple[str, ...] | None = None
    """The looks of a check whose rows it reads; None: it judges a load."""
    covered_by: tuple[str, ...] = ()
    """Rules that say the same of a load while it is watched: where one of them finds it, this one
    is left out."""
    of_clients: bool = False
    """True if it judges what only the clients of a load of pgdyno's own can tell."""
    of_refusals: bool = False
    """True if it says who refuses clients, or leaves them without an answer: that is known even
    where it makes a slice void."""


def rule(
    id: str,
    *,
    false_positives: str,
    looks: tuple[str, ...] | None = None,
    covered_by: tuple[str, ...] = (),
    of_clients: bool = False,
    of_refusals: bool = False,
) -> Callable[[Callable[[Facts], Found | Cleared]], Rule[Facts]]:
    """Make a rule of a function, with the other members of :class:`Rule`."""

    def made(examine: Callable[[Facts], Found | Cleared]) -> Rule[Facts]:
        return Rule(
            id=id,
            examine=examine,
            text=inspect.getdoc(examine) or "",
            false_positives=false_positives,
            looks=looks,
            covered_by=covered_by,
            of_clients=of_clients,
            of_refusals=of_refusals,
        )

    return made


@cache
def rules_of_loads() -> tuple[Rule[Situation], ...]:
    """Return the rules that judge a load, ordered by ID."""
    return tuple(each for each in _rules() if each.looks is None)


@cache
def rules_of_looks() -> tuple[Rule[Sight], ...]:
    """Return the rules that judge the looks of a check, ordered by ID."""
    return tuple(each for each in _rules() if each.looks is not None)


@cache
def _rules() -> tuple[Rule[Any], ...]:
    from pgdyno import rules as package

    return tuple(by_name(held_by(package, Rule), "rules", lambda each: each.id).values())
