"""The prediction, the proposals and the evidence of changes that were tried beside the load (see
``facts.plans``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from pgdyno.facts.budget import Part
from pgdyno.facts.flush import starved_part
from pgdyno.facts.plans import (
    NOT_LOOKED_AT,
    WORK_MEM,
    ChangedStatement,
    TimedChange,
    following_ms,
    owned_share,
    saved_share,
    was_looked_at,
    work_parts,
)
from pgdyno.facts.situation import Situation
from pgdyno.facts.suspects import suspected, timed_suspects
from pgdyno.numbers import listed, percent
from pgdyno.record import Suspect, Suspicion
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import ratio_without
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._reads import are_copied
from pgdyno.stats.prediction import Prediction

SAVED_PART_MAX = 0.999
COST_SHARE = 0.05
"""Share of the response time from which on what a change saves is worth a finding; ours."""
_MEMORY = (WORK_MEM, "hash_mem_multiplier")
MEMORY_SHARE = 0.5
"""Least share of what memory saves one session alone that it also saves where many fill it at once,
and caches hold less of it: 2.2 times alone was 1.5 times with 8 clients on 2 cores."""


def is_costly(s: Situation, change: TimedChange, share_min: float = COST_SHARE) -> bool:
    """Return whether a change certainly saves, and ``share_min`` of the response time or more."""
    return change.is_worthwhile and saved_share(s, change) >= share_min


class Weight(TypedDict):
    """Members of ``Found`` that decide its place."""

    parts: Sequence[Part]
    share: float
    gain: Prediction


def weight_of(s: Situation, change: TimedChange) -> Weight:
    """Return the weight of a finding that is what a change saves."""
    gain = ratio_with(s, change)
    return Weight(parts=work_parts(s), share=owned_share(s, change), gain=gain)


def ratio_with(s: Situation, change: TimedChange) -> Prediction:
    """Return the predicted ratio of throughput with a change: the CPU time of the sessions, and
    their other work, fall by the part that it saves.

    At one end only the CPU time and the waits for parallel workers fall, and those for pages that
    sessions copy from the kernel's cache, which takes CPU time; at the other all of the work, the
    waits for rows that are held meanwhile, and what flushes may wait for a core. The guess is
    halfway; the ends have the error of the times too, the lower one of memory also
    ``MEMORY_SHARE``.
    """
    guesses = _ratios(s, change.saved)
    sure = MEMORY_SHARE if {*_MEMORY} & change.change.settings.keys() else 1.0
    ends = [*_ratios(s, sure * change.saved_min), *_ratios(s, change.saved_max)]
    return Prediction((min(guesses) * max(guesses)) ** 0.5, min(ends), max(ends))


def _ratios(s: Situation, saved: float) -> list[float]:
    """Return the ends of the ratio without the part ``saved`` of the work."""
    part = min(SAVED_PART_MAX, max(0.0, saved))
    data = 1.0 - part if are_copied(s) else 1.0
    cpu, service_ms = ratio_without(s, part, parallel=1.0 - part, data=data), s.budget.service_ms
    flushing_ms = sum(s.budget.parts_ms.get(each, 0.0) for each in ("flush", "images"))
    falling_ms = following_ms(s) + starved_part(s) * flushing_ms
    left_ms = max(1e-3 * service_ms, service_ms - part * falling_ms)
    return [cpu.low, cpu.high, service_ms / left_ms]


def proposals_of(
    s: Situation, tried: Iterable[TimedChange], remedy_id: str, why: str
) -> list[Proposal]:
    """Return the changes that are predicted to pay, as proposals of one remedy."""
    found = [
        Proposal(
            remedy_id=remedy_id,
            change=each.change,
            predicted_ratio=ratio_with(s, each),
            why=why,
            specific=True,
        )
        for each in tried
    ]
    return [each for each in found if each.predicted_ratio >= WORTHWHILE_RATIO]


def refuse_if_undecided(change: TimedChange, title: str) -> None:
    """Raise Skip if the times with and without a change, called ``title``, differ by no more than
    their error, and may be those of a change that saves a lot."""
    if change.is_undecided:
        raise Skip(f"executions differ too much to tell whether {title} saves time")


def trial_against(
    s: Situation, suspicion: Suspicion, without: str
) -> tuple[TimedChange, Suspect] | None:
    """Return the trial against what is suspected of this that saves most, and the first that it is
    against; None if nothing is suspected. Raises Skip if the plans were not looked at, or nothing
    was tried ``without`` it."""
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    found, tried = suspected(s, suspicion), timed_suspects(s, suspicion)
    if tried:
        timed, (first, *_) = tried[0]
        return timed, first
    if found:
        raise Skip(f"{found[0].index_name or found[0].relation} was not tried without {without}")
    return None


def settings_title(change: TimedChange) -> str:
    """Return the settings of a change in words."""
    return listed([f"{name} = {value}" for name, value in change.change.settings.items()])


def saved_evidence(s: Situation, change: TimedChange, title: str, share_min: float) -> Evidence:
    """Return the share of the response time that goes with a change called ``title``."""
    name = f"saved with {title} / response time"
    return s.evidence(name, saved_share(s, change), "share", f"at least {percent(share_min)}")


def time_evidence(
    s: Situation, statements: Sequence[ChangedStatement], title: str
) -> list[Evidence]:
    """Return the times of statements as they are, and as they are ``title``."""
    return [
        item
        for each in statements
        for item in (
            s.evidence("time of the statement", each.ms, "ms"),
            s.evidence(title, each.changed_ms, "ms"),
            s.evidence("statement", each.total.statement, ""),
        )
    ]
