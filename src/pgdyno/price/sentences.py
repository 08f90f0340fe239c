"""What a price comes to, in words: the sentence of each candidate, and of the whole list.

Pure functions of the JSON result, so that a report can say the same of a run file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.stats.words import effect_words, ratio_words

Row = Mapping[str, Any]
"""One candidate of the result: ``docs/reference/result-price.schema.json``."""


NOT_COMPARABLE = "not comparable, for more transactions failed on one side than on the other: {}"
_SAID_OF_GAIN = {
    "throughput": {
        "better": "gives {} the throughput",
        "worse": "costs throughput: {}",
        "inconclusive": "inconclusive in throughput: {}",
        "no difference": "makes no difference to throughput: {}",
        "not comparable": NOT_COMPARABLE,
    },
    "latency_p99": {
        "better": "at the held rate p99 falls: {}",
        "worse": "at the held rate p99 rises: {}",
        "inconclusive": "inconclusive in p99 at the held rate: {}",
        "no difference": "makes no difference to p99 at the held rate: {}",
        "not comparable": NOT_COMPARABLE,
    },
}
"""By what was compared and the verdict, with the ratio in its place."""


def sentence(row: Row) -> str:
    """What the candidate buys and what it costs, without a period."""
    return "; ".join(part for part in (gain_words(row), *loss_words(row)) if part)


def gain_words(row: Row) -> str:
    """What the candidate buys; '' for the baseline, which is what others are held against."""
    gain = row["gain"]
    if gain is None:
        return ""
    if not gain["measured"]:
        return str(gain["why"])
    compared = str(gain["compared"])
    said = _SAID_OF_GAIN[compared][gain["verdict"]]
    if compared == "latency_p99":
        return said.format(effect_words(gain["latency_p99_ratio"], *gain["latency_p99_ci95"]))
    return said.format(effect_words(gain["throughput_ratio"], *gain["ci95"]))


def loss_words(row: Row) -> list[str]:
    """What each drill took."""
    losses = row["losses"]
    drilled = [_drilled(loss) for loss in losses if loss["drilled"]]
    missing: dict[str, list[str]] = {}
    for loss in losses:
        if not loss["drilled"]:
            missing.setdefault(loss["why"], []).append(loss["fault"])
    return drilled + [f"{_and(faults)} not drilled: {why}" for why, faults in missing.items()]


def _drilled(loss: Row) -> str:
    happened = loss["happened"]
    name = fault_name(loss)
    if not happened:
        return f"{name}: the fault did not happen, so nothing is known"
    parts = []
    if loss["corrupt"]:
        parts.append(f"came up corrupt after {loss['corrupt']} of {_cuts(happened)}")
    if loss["refused"]:
        parts.append(f"refused to start after {loss['refused']} of {_cuts(happened)}")
    if loss["lost_max"]:
        parts.append(f"{_lost(loss)}{_bound(loss)}")
    if not parts:
        share = loss["upper_bound"]
        parts.append(f"lost nothing in {_cuts(happened)} (so at most {share * 100:.2g} % lose any)")
    if happened < loss["cuts"]:
        parts.append(f"did not happen in {loss['cuts'] - happened} more")
    if loss.get("broke_off"):
        parts.append(f"then broke off: {loss['broke_off']}")
    return f"{name}: {', '.join(parts)}"


def _lost(loss: Row) -> str:
    what = "commit" if loss["lost_max"] == 1 else "commits"
    worst = f"{loss['lost_max']:,} {what}, the oldest {_ms(loss['lost_ms_max'])} old"
    if loss["happened"] == 1:
        return f"lost {worst}, in 1 cut"
    middle = f"{loss['lost_median']:,.0f}, {_ms(loss['lost_ms_median'])}"
    return f"lost at most {worst}, in {_cuts(loss['happened'])} (median {middle})"


def _bound(loss: Row) -> str:
    if loss["bound_ms"] is None:
        return ""
    if loss["bound_ms"] == 0:
        return ", where nothing may be lost"
    how = "MORE than" if loss["worse_than_bound"] else "within"
    return f", {how} the documented {_ms(loss['bound_ms'])}"


def fault_name(loss: Row) -> str:
    """The fault, and which of its variants."""
    return f"{loss['fault']}, {loss['variant']}" if loss.get("variant") else str(loss["fault"])


def verdict(rows: Sequence[Row]) -> str:
    """The price list in one sentence, without a period: what most is gained by, at each price."""
    parts: list[str] = []
    for said, found in (
        ("lost nothing", [r for r in rows if harm(r) == "none"]),
        ("lost only commits", [r for r in rows if harm(r) == "lost"]),
        ("broke or emptied the database", [r for r in rows if harm(r) == "broken"]),
    ):
        best = max((r for r in found if _gains(r)), key=_gain_ratio, default=None)
        if best is not None:
            cuts = sum(loss["happened"] for loss in decisive(best["losses"]))
            name = f"{best['title']} ({best['durability_class']})"
            gives = "" if parts else " gives most"
            gain = _gain_in_short(best)
            parts.append(f"{name}{gives}, {gain}, of what {said} ({_cuts(cuts)})")
    if not parts and any(_gains(row) for row in rows):
        best = max((row for row in rows if _gains(row)), key=_gain_ratio)
        parts.append(
            f"{best['title']} gives most: {_gain_in_short(best)}; its price was not drilled"
        )
    at_a_rate = any(row["gain"] and row["gain"].get("compared") == "latency_p99" for row in rows)
    what = "is seen to shorten p99" if at_a_rate else "is seen to give more throughput"
    return "; ".join(parts) or f"nothing on this list {what} here"


def harm(row: Row) -> str:
    """The worst that the drills saw: none, lost or broken; unknown while one is missing that might
    have seen more than nothing."""
    seen = decisive(row["losses"])
    if any(loss["corrupt"] or loss["refused"] for loss in seen):
        return "broken"
    if any(loss["lost_max"] for loss in seen):
        return "broken" if row["durability_class"] == "D3" else "lost"
    whole = all(known(loss) and not loss.get("broke_off") for loss in row["losses"])
    return "none" if seen and whole else "unknown"


def known(loss: Row) -> bool:
    """Whether a drill was made whose fault happened."""
    return bool(loss["drilled"] and loss["happened"])


def decisive(losses: Sequence[Row]) -> list[Row]:
    """The drills that a candidate is judged by: of several rescues, those that are said to bring
    back what commits waited for, where there are such."""
    seen = [loss for loss in losses if known(loss)]
    promising = {loss["fault"] for loss in seen if loss["promised"]}
    return [loss for loss in seen if loss["promised"] or loss["fault"] not in promising]


def _gains(row: Row) -> bool:
    gain = row["gain"]
    return bool(gain and gain["measured"] and gain["verdict"] == "better")


def _gain_ratio(row: Row) -> float:
    """How many times better: of throughput, or of the p99 at a rate that both sides held."""
    gain = row["gain"]
    if gain["compared"] == "latency_p99":
        return float(1 / gain["latency_p99_ratio"])
    return float(gain["throughput_ratio"])


def _gain_in_short(row: Row) -> str:
    gain = row["gain"]
    if gain["compared"] == "latency_p99":
        return f"p99 {ratio_words(gain['latency_p99_ratio'])}"
    return ratio_words(gain["throughput_ratio"])


def _ms(value: float) -> str:
    return f"{value / 1000:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def _cuts(number: int) -> str:
    return f"{number} cut" if number == 1 else f"{number} cuts"


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
