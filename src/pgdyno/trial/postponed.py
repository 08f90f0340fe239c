"""Work that a trial's slices postponed and did at their end, as means of each side's slices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

from pgdyno.record import Event, RunFile
from pgdyno.record.events import own_events
from pgdyno.results.common import Postponed, PostponedSide
from pgdyno.spec.change import Debt


def postponed(
    run: RunFile, slices_a: Collection[int], slices_b: Collection[int]
) -> tuple[Postponed, ...]:
    """Return the work of each kind, without and with the change; empty if no slice did any."""
    sides = [own_events(run, slices) for slices in (slices_a, slices_b)]
    found = []
    for debt in get_args(Debt):
        before, after = ([e for e in events if e.detail.get("debt") == debt] for events in sides)
        if before and after:
            found.append(
                Postponed(
                    work=debt,
                    unit=str(after[0].detail.get("unit", "")),
                    before=_mean(before),
                    after=_mean(after),
                )
            )
    return tuple(found)


def _mean(events: Sequence[Event]) -> PostponedSide:
    amounts = [each.detail.get("amount") for each in events]
    known = [amount for amount in amounts if amount is not None]
    return PostponedSide(
        amount=round(sum(known) / len(known)) if known else None,
        ms=round(sum(each.duration_ms or 0.0 for each in events) / len(events), 3),
    )
