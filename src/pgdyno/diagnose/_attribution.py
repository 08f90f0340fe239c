"""Attribution of the response time: each part of the latency budget is explained by a finding,
cleared, own work, or unexplained.

A part is named if one of these holds, in this order:

- a finding that was found explains it, however small its share; the queue for a core and the data
  files (``DIVIDED``) are explained for as much of them as the findings own, because what takes CPU
  time makes only its own part of the queue;
- it is work of the transaction itself: CPU time on a core, the pauses that its script asks for
  (``\\sleep``, ``pg_sleep``), and messages of at most ``ROUND_TRIP_MS`` for each statement;
- it is smaller than ``PART_MAX``, and a rule that judges it cleared it.

A queue in front of the server that no finding claims is neither: it is as long as what those ahead
take, and shares of the named and the unexplained are of the time without it. All else is
unexplained. No tool publishes such a line; ``PART_MAX`` and ``NAMED_MIN`` are our choice: what is
smaller than 15 % cannot be the limit, and four fifths must be accounted for before anything is
called healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pgdyno.facts.budget import PART_MAX, QUEUES, Part, ResponseTimeBudget
from pgdyno.facts.sessions import requests_each
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Finding

NAMED_MIN = 0.8
"""Share of the response time that must be named before nothing is said to hold the load back."""
SHOWN_MIN = 0.03
"""Smallest share that is listed by itself."""
ROUND_TRIP_MS = 0.2
"""Messages of one statement on one machine or within a rack: a round trip in a network segment and
the work of both ends. Calibrated: 0.03 to 0.12 ms over a Unix socket on 2 busy cores."""
DIVIDED: tuple[Part, ...] = ("ready", "data")
"""Parts of which a finding may own some, and nobody the rest."""

PartStatus = Literal["explained", "own work", "cleared", "behind others", "unexplained"]
EXPLAINED: Final = "explained"
OWN_WORK: Final = "own work"
CLEARED: Final = "cleared"
QUEUED: Final = "behind others"
UNEXPLAINED: Final = "unexplained"


class NamedPart(Struct, frozen=True):
    """A part of the response time with what names it."""

    part: Part
    ms: float
    share: float
    """Part of the mean response time, 0 to 1."""
    unexplained: float
    """Portion of ``share`` that nothing names: all of a part that is unexplained, and as much of a
    divided one as no finding owns."""
    status: PartStatus
    findings: tuple[str, ...]
    """Ids of the findings that explain it, or of the rules that cleared it."""
    events: tuple[tuple[str, float], ...]
    """Its wait events, ``type:event``, with their shares of the response time, the largest
    first."""


def named_parts(s: Situation, findings: Iterable[Finding]) -> list[NamedPart]:
    """Return the parts of the budget of ``s``, the largest first, without those of no time."""
    findings = list(findings)
    explained = _by_part(findings, "found")
    cleared = _by_part(findings, "cleared")
    parts = []
    for part, ms in s.budget.parts_ms.items():
        if ms > 0:
            share = s.budget.share(part)
            status, ids = _status(s, part, share, explained, cleared)
            missing = share if status == UNEXPLAINED else 0.0
            if status == EXPLAINED and part in DIVIDED:
                missing = share * (1.0 - _owned(part, findings, s.budget))
            events = _events(s, part, share)
            parts.append(NamedPart(part, ms, share, missing, status, ids, events))
    return sorted(parts, key=lambda each: -each.ms)


def _owned(part: Part, findings: Sequence[Finding], budget: ResponseTimeBudget) -> float:
    """Return how much of ``part`` the findings own, 0 to 1: of each of its parts, a finding owns
    what its share is of all of them together."""
    found = [each for each in findings if each.status == "found"]
    claimed = {name for name in budget.parts_ms if any(name in each.parts for each in found)}
    owned = 0.0
    for each in found:
        if part in each.parts:
            whole = budget.owned_share([n for n in budget.parts_ms if n in each.parts], claimed)
            owned += (each.share or 0.0) / whole if whole > 0 else 1.0
    return min(1.0, owned)


def _by_part(findings: Iterable[Finding], status: str) -> dict[str, tuple[str, ...]]:
    named: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        if finding.status == status:
            for part in finding.parts:
                named[part] = (*named.get(part, ()), finding.id)
    return named


def _status(
    s: Situation,
    part: Part,
    share: float,
    explained: Mapping[str, tuple[str, ...]],
    cleared: Mapping[str, tuple[str, ...]],
) -> tuple[PartStatus, tuple[str, ...]]:
    if part in explained:
        return EXPLAINED, explained[part]
    if part in ("running", "pause", "sleep") or (part == "between" and _own_messages(s)):
        return OWN_WORK, ()
    if part in QUEUES:
        return QUEUED, ()
    if part in cleared and share < PART_MAX:
        return CLEARED, cleared[part]
    return UNEXPLAINED, ()


def _own_messages(s: Situation) -> bool:
    """True if the time between statements and answers is that of the messages themselves."""
    if s.front is not None:
        statements = s.front_load.mean("statements") * requests_each(s)
    else:
        sent = sum(each.service.count for each in s.statements)
        statements = sent / (s.throughput_tps * s.seconds)
    return s.budget.parts_ms["between"] <= ROUND_TRIP_MS * max(1.0, statements)


def _events(s: Situation, part: Part, share: float) -> tuple[tuple[str, float], ...]:
    """Return the wait events of ``part`` with their shares; () for parts that are none."""
    if not s.sessions_were_sampled:
        return ()
    by_event = s.events_of("flush" if part == "images" else part)
    total = sum(by_event.values())
    largest = sorted(by_event.items(), key=lambda item: -item[1])
    return tuple((event, share * sessions / total) for event, sessions in largest if total)


def unexplained(parts: Sequence[NamedPart]) -> list[NamedPart]:
    """Return the parts that are unexplained and large enough to be listed."""
    return [each for each in parts if each.unexplained >= SHOWN_MIN]


def all_named(parts: Sequence[NamedPart]) -> bool:
    """True if enough is named to say that nothing holds the load back."""
    whole = sum(each.share for each in parts if each.status != QUEUED)
    missing = [each.unexplained for each in parts]
    return sum(missing) <= (1.0 - NAMED_MIN) * whole and max(missing, default=0.0) < (
        PART_MAX * whole
    )
