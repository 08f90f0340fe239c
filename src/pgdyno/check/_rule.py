"""The type of a rule, and the list of all rules.

A rule judges what the looks of a check recorded. It is added by adding one file to ``rules/`` with
a ``RULE``; nothing else lists them. Its docstring gives the trigger, and the threshold with its
source. ``examine`` takes a :class:`~pgdyno.check._sight.Sight` and returns :class:`Fault` or
:class:`Fine`; it, or the sight, raises ``Unseen`` if something could not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct

from pgdyno.check._sight import Sight
from pgdyno.listing import by_name, held_by
from pgdyno.record.finding import Evidence, Proposal, Severity


class Fault(Struct, frozen=True):
    """Something is wrong."""

    sentence: str
    severity: Severity
    confidence: float
    evidence: Sequence[Evidence]
    advice: str = ""
    commands: Sequence[str] = ()
    """SQL or shell commands that remedy it, to type after a look at them."""
    proposals: Sequence[Proposal] = ()


class Fine(Struct, frozen=True):
    """It was looked at, and nothing is wrong."""

    sentence: str
    evidence: Sequence[Evidence] = ()


class Rule(Struct, frozen=True):
    """The rule for one fault."""

    id: str
    looks: tuple[str, ...]
    """The looks whose rows it reads."""
    false_positives: str
    examine: Callable[[Sight], Fault | Fine]
    covered_by: tuple[str, ...] = ()
    """Signatures that say the same of a load while it is watched: where one of them finds it, the
    rule is left out."""


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, ordered by ID."""
    from pgdyno.check import rules as package

    found: dict[str, Rule] = by_name(held_by(package, "RULE"), "rules", lambda each: each.id)
    return tuple(found.values())
