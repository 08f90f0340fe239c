"""The differences of a price list between two servers, in gains and in losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from pgdyno import numbers
from pgdyno.drill.two_servers import differences as drills_differ
from pgdyno.results.drill import Drill
from pgdyno.results.price import Difference, Gain, PriceList, PriceResult


class Priced(Struct, frozen=True):
    """A price list and its drills."""

    result: PriceResult
    drills: Mapping[tuple[str, str], Drill]
    """By candidate and fault."""


def compared(here: Priced, there: Priced) -> PriceResult:
    """Return the result of ``here`` compared with ``there``, the same list on another server."""
    differences = (*_gains(here.result, there.result), *_losses(here, there))
    against = PriceList(**{name: getattr(there.result, name) for name in PriceList.model_fields})
    return here.result.model_copy(update={"against": against, "differences": differences})


def _gains(here: PriceList, there: PriceList) -> Iterator[Difference]:
    """Yield the gains of both; they differ if their intervals do not overlap."""
    names = here.server_version, there.server_version
    others = {row.candidate: row.gain for row in there.prices}
    for row in here.prices:
        one, other = row.gain, others.get(row.candidate)
        if not isinstance(one, Gain) or not isinstance(other, Gain):
            continue
        held = one.compared == other.compared == "latency_p99"
        what, ours, theirs = (
            ("latency_p99_ratio", one.latency_p99_ci95, other.latency_p99_ci95)
            if held
            else ("throughput_ratio", one.ci95, other.ci95)
        )
        ratios = getattr(one, what), getattr(other, what)
        differs = ours[0] > theirs[1] or theirs[0] > ours[1]
        verdict = "a difference" if differs else "no difference seen"
        yield Difference(
            candidate=row.candidate,
            fault="",
            what=what,
            here=ratios[0],
            there=ratios[1],
            differs=differs,
            sentence=(
                f"{row.title}: {'p99' if held else 'throughput'} {numbers.ratio(ratios[0])} on"
                f" {names[0]} and {numbers.ratio(ratios[1])} on {names[1]}: {verdict}"
            ),
        )


def _losses(here: Priced, there: Priced) -> Iterator[Difference]:
    titles = {row.candidate: row.title for row in here.result.prices}
    for (candidate, fault), drill in here.drills.items():
        other = there.drills.get((candidate, fault))
        if other is None:
            continue
        for each in drills_differ(drill, other):
            yield Difference(
                candidate=candidate,
                fault=fault,
                what=each.what,
                here=each.here,
                there=each.there,
                differs=each.differs,
                sentence=f"{titles[candidate]}, {fault}: {each.sentence}",
            )
