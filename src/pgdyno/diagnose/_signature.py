"""What a signature is, and how the folder of signatures is read.

A signature is added by adding one file to ``signatures/`` with a ``SIGNATURE``; nothing else lists
them. Its ``examine`` looks at a :class:`~pgdyno.diagnose._situation.Situation` and returns
:class:`Found` or :class:`Cleared`; a ``Skip`` raised on the way, by it or by the situation, means
that it could not be checked.
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
    spoils: bool = False
    """Whether it makes every other finding doubtful, and so comes first."""


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
    """Every signature in the folder, by id."""
    from pgdyno.diagnose import signatures as folder

    found: dict[str, Signature] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        signature = importlib.import_module(f"{folder.__name__}.{module.name}").SIGNATURE
        if signature.id in found:
            raise ValueError(f'two signatures have the id "{signature.id}"')
        found[signature.id] = signature
    return tuple(found[name] for name in sorted(found))
