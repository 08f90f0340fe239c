"""The same price list on two servers: where gains and losses differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.drill.model import DrillResult
from pgdyno.drill.two_servers import differences as drills_differ
from pgdyno.stats.words import ratio_words


@dataclass(frozen=True)
class Priced:
    """A price list, and the drills behind it."""

    result: dict[str, Any]
    """As ``docs/reference/result-price.schema.json`` describes it."""
    drills: Mapping[tuple[str, str], DrillResult]
    """By candidate and fault."""


def comparison(here: Priced, there: Priced) -> dict[str, Any]:
    """What the result of ``here`` says besides, ``there`` being the same on another server."""
    found = [*_gains(here.result, there.result), *_losses(here, there)]
    return {"against": there.result, "differences": found}


def _gains(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Gains differ where their intervals do not meet."""
    names = here["server_version"], there["server_version"]
    others = {row["candidate"]: row["gain"] for row in there["prices"]}
    for row in here["prices"]:
        one, other = row["gain"], others.get(row["candidate"])
        if not one or not other or not one["measured"] or not other["measured"]:
            continue
        held = one["compared"] == other["compared"] == "latency_p99"
        ratio, ci95 = ("latency_p99_ratio", "latency_p99_ci95") if held else (
            "throughput_ratio", "ci95")  # fmt: skip
        differs = one[ci95][0] > other[ci95][1] or other[ci95][0] > one[ci95][1]
        verdict = "a difference" if differs else "no difference seen"
        yield {
            "candidate": row["candidate"],
            "fault": "",
            "what": ratio,
            "here": one[ratio],
            "there": other[ratio],
            "differs": differs,
            "sentence": (
                f"{row['title']}: {'p99' if held else 'throughput'} {ratio_words(one[ratio])} on"
                f" {names[0]} and {ratio_words(other[ratio])} on {names[1]}: {verdict}"
            ),
        }


def _losses(here: Priced, there: Priced) -> Iterator[dict[str, Any]]:
    titles = {row["candidate"]: row["title"] for row in here.result["prices"]}
    for (candidate, fault), drill in here.drills.items():
        other = there.drills.get((candidate, fault))
        if other is None:
            continue
        for each in drills_differ(drill, other):
            yield {
                "candidate": candidate,
                "fault": fault,
                "what": each.what,
                "here": each.here,
                "there": each.there,
                "differs": each.differs,
                "sentence": f"{titles[candidate]}, {fault}: {each.sentence}",
            }
