"""The type of a signature, and the loading of all signatures.

A signature is added by adding one file to ``signatures/`` with a ``SIGNATURE``; nothing else lists
them. Its ``examine`` takes a :class:`~pgdyno.diagnose._situation.Situation` and returns
:class:`Found` or :class:`Cleared`; it, or the situation, raises ``Skip`` if the check is not
possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._situation import Situation
from pgdyno.listing import by_name, held_by
from pgdyno.record.finding import Evidence, Proposal


class Found(Struct, frozen=True):
    """The bottleneck is there."""

    sentence: str
    liftable: float
    """Part of the response time that would go if the limit were lifted, 0 to 1, by the model."""
    confidence: float
    evidence: Sequence[Evidence]
    causes: Sequence[str] = ()
    proposals: Sequence[Proposal] = ()
    advice: str = ""
    """Measures that pgdyno cannot take itself, such as a change of the application."""
    parts: Sequence[Part] = ()
    """Parts of the latency budget that it explains; together they are its share."""
    share: float | None = None
    """Share of the mean response time, 0 to 1, where it is not that of ``parts``."""
    about_to_fail: bool = False
    """True if the server will stop soon: ranked before everything that is only slow."""
    momentary: bool = False
    """True if it lasts for moments only, which a load may have that holds its rate on average.
    Ranked behind every finding with a larger share of the time of the whole run."""
    crowds_others: bool = False
    """True if it takes what lifting other limits would need, so that their predicted gains are too
    small to compare with its own: ranked behind every finding with a larger share."""
    causes_distrust: bool = False
    """True if it makes every other finding doubtful and is ranked first."""


class Cleared(Struct, frozen=True):
    """The bottleneck was looked for and is not there."""

    sentence: str
    evidence: Sequence[Evidence]
    parts: Sequence[Part] = ()
    """Parts of the latency budget that it judges: while small, they count as named."""


class Signature(Struct, frozen=True):
    """The rule for one bottleneck."""

    id: str
    false_positives: str
    examine: Callable[[Situation], Found | Cleared]
    of_clients: bool = False
    """True if it judges what only the clients of a load of pgdyno's own can tell."""
    of_refusals: bool = False
    """True if it says who refuses clients, or leaves them without an answer: that is known even
    where it makes a slice void."""


@cache
def signatures() -> tuple[Signature, ...]:
    """Return all signatures, ordered by ID."""
    from pgdyno.diagnose import signatures as package

    found: dict[str, Signature] = by_name(
        held_by(package, "SIGNATURE"), "signatures", lambda each: each.id
    )
    return tuple(found.values())
