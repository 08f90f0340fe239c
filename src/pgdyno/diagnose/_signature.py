"""The type of a signature, and the loading of all signatures.

A signature is added by adding one file to ``signatures/`` with a ``SIGNATURE``; nothing else lists
them. Its ``examine`` takes a :class:`~pgdyno.diagnose._situation.Situation` and returns
:class:`Found` or :class:`Cleared`; it, or the situation, raises ``Skip`` if the check is not
possible.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Proposal


@dataclass(frozen=True)
class Found:
    """The bottleneck is there."""

    sentence: str
    share: float
    """Part of the mean response time that is this finding's own, 0 to 1."""
    liftable: float
    """Part of the response time that would go if the limit were lifted, 0 to 1, by the model."""
    confidence: float
    evidence: Sequence[Evidence]
    causes: Sequence[str] = ()
    proposals: Sequence[Proposal] = ()
    causes_distrust: bool = False
    """True if it makes every other finding doubtful and is ranked first."""


@dataclass(frozen=True)
class Cleared:
    """The bottleneck was looked for and is not there."""

    sentence: str
    evidence: Sequence[Evidence]


@dataclass(frozen=True)
class Signature:
    """The rule for one bottleneck."""

    id: str
    false_positives: str
    examine: Callable[[Situation], Found | Cleared]


@cache
def signatures() -> tuple[Signature, ...]:
    """Return all signatures, ordered by ID."""
    from pgdyno.diagnose import signatures as package

    found: dict[str, Signature] = {}
    for module in pkgutil.iter_modules(package.__path__):
        signature = importlib.import_module(f"{package.__name__}.{module.name}").SIGNATURE
        if signature.id in found:
            raise ValueError(f'two signatures have the id "{signature.id}"')
        found[signature.id] = signature
    return tuple(found[name] for name in sorted(found))
