"""Sentences of a price list: one for each candidate, and one for the whole list.

Pure functions of the result, so that a report of a run file has the same sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeGuard

from pgdyno import numbers
from pgdyno.drill.model import NOTHING_ACKED
from pgdyno.results.common import Measure, Outcome
from pgdyno.results.loss import Drilled, Loss, NotDrilled
from pgdyno.results.price import Gain, NotMeasured, Price

NOT_COMPARABLE = (
    "not comparable, because more transactions failed on one side than on the other: {}"
)
_GAIN_WORDS: dict[Measure, dict[Outcome, str]] = {
    "throughput": {
        "better": "gives {} the throughput",
        "worse": "costs throughput: {}",
        "inconclusive": "inconclusive in throughput: {}",
        "mixed": "mixed, with {} the throughput in total: a client group loses, or more fail",
        "no difference": "makes no difference to throughput: {}",
        "not comparable": NOT_COMPARABLE,
    },
    "latency_p99": {
        "better": "at the held rate p99 falls: {}",
        "worse": "at the held rate p99 rises: {}",
        "inconclusive": "inconclusive in p99 at the held rate: {}",
        "mixed": "mixed, with p99 {} in total: a client group loses, or more transactions fail",
        "no difference": "makes no difference to p99 at the held rate: {}",
        "not comparable": NOT_COMPARABLE,
    },
}
"""Sentences by the compared figure and the verdict; the braces stand for the ratio."""
_FIGURES: dict[Measure, str] = {
    "throughput": "throughput",
    "latency_p99": "p99 at the held rate",
}


def sentence(gain: Gain | NotMeasured | None, losses: Sequence[Loss]) -> str:
    """Return the gain and the losses of a candidate in words, without a final period."""
    return "; ".join(part for part in (gain_words(gain), *loss_words(losses)) if part)


def gain_words(gain: Gain | NotMeasured | None) -> str:
    """Return a gain in words; '' for the baseline."""
    if gain is None:
        return ""
    if isinstance(gain, NotMeasured):
        return gain.why
    effect = _effect_words(gain)
    if gain.verdict == "mixed" and gain.against:
        return f"mixed: {'; '.join(gain.against)}; in total {_FIGURES[gain.compared]} {effect}"
    return _GAIN_WORDS[gain.compared][gain.verdict].format(effect)


def _effect_words(gain: Gain) -> str:
    if gain.compared == "latency_p99":
        return numbers.effect(gain.latency_p99_ratio, *gain.latency_p99_ci95)
    return numbers.effect(gain.throughput_ratio, *gain.ci95)


def loss_words(losses: Sequence[Loss]) -> list[str]:
    """Return the losses of each drill in words, then the drills that were not made."""
    missing: dict[str, list[str]] = {}
    for loss in losses:
        if isinstance(loss, NotDrilled):
            missing.setdefault(loss.why, []).append(loss.fault)
    return [
        *(_drilled_words(loss) for loss in losses if isinstance(loss, Drilled)),
        *(
            f"not drilled with the fault {numbers.listed(faults, most=None)}: {why}"
            for why, faults in missing.items()
        ),
    ]


def _drilled_words(loss: Drilled) -> str:
    happened = loss.happened
    name = fault_name(loss)
    if not happened:
        return f"{name}: the fault did not happen, so nothing is known"
    parts = []
    if loss.corrupt:
        parts.append(f"came up corrupt after {loss.corrupt} of {_cuts(happened)}")
    if loss.refused:
        parts.append(f"refused to start after {loss.refused} of {_cuts(happened)}")
    if loss.lost_max:
        parts.append(f"{_lost(loss, loss.lost_max)}{_bound(loss)}")
    if not parts and _is_idle(loss):
        parts.append(NOTHING_ACKED)
    elif not parts:
        parts.append(f"lost nothing in {_cuts(happened)}{_at_most(loss.upper_bound)}")
    if happened < loss.cuts:
        parts.append(f"did not happen in {loss.cuts - happened} more")
    if loss.broke_off:
        parts.append(f"then ended early: {loss.broke_off}")
    return f"{name}: {', '.join(parts)}"


def _at_most(share: float | None) -> str:
    return " of one load" if share is None else f" (so at most {numbers.percent(share)} lose any)"


def _lost(loss: Drilled, lost_max: int) -> str:
    oldest = numbers.duration((loss.lost_ms_max or 0.0) / 1000)
    worst = f"{numbers.counted(lost_max, 'commit', 'commits')}, the oldest {oldest} old"
    if loss.happened == 1:
        return f"lost {worst}, in 1 cut"
    median = numbers.duration((loss.lost_ms_median or 0.0) / 1000)
    middle = f"{numbers.count(loss.lost_median or 0)}, {median}"
    return f"lost at most {worst}, in {_cuts(loss.happened)} (median {middle})"


def _bound(loss: Drilled) -> str:
    if loss.bound_ms is None:
        return ""
    if loss.bound_ms == 0:
        return ", where nothing may be lost"
    how = "MORE than" if loss.worse_than_bound else "within"
    return f", {how} the documented {numbers.duration(loss.bound_ms / 1000)}"


def fault_name(loss: Loss) -> str:
    """Return the fault, with its variant if it has one."""
    return f"{loss.fault}, {loss.variant}" if loss.variant else loss.fault


Harm = Literal["none", "lost", "broken", "unknown"]
_HARM_WORDS: dict[Harm, str] = {
    "none": "without a loss",
    "lost": "with a loss of commits only",
    "broken": "with a broken or emptied database",
}


def verdict(prices: Sequence[Price]) -> str:
    """Return the price list in one sentence, without a final period: the candidate with the largest
    gain for each kind of harm."""
    parts: list[str] = []
    for kind, words in _HARM_WORDS.items():
        if best := _best([price for price in prices if harm(price) == kind]):
            cuts = sum(loss.happened for loss in decisive(best.losses))
            title = f"{best.title} ({best.durability_class})"
            parts.append(f"{words}: {title}, {_ratio(best)} ({_cuts(cuts)})")
    if parts:
        return f"largest gain {'; '.join(parts)}"
    if best := _best(prices):
        return f"largest gain: {best.title}, {_ratio(best)}; its price was not drilled"
    return _no_gain_words(prices)


def _no_gain_words(prices: Sequence[Price]) -> str:
    gains = [price.gain for price in prices if price.gain is not None]
    measured = [gain for gain in gains if isinstance(gain, Gain)]
    if not measured:
        return "nothing on this list was measured"
    at_a_rate = any(gain.compared == "latency_p99" for gain in measured)
    effect = "shortens p99" if at_a_rate else "increases throughput"
    missing = len(gains) - len(measured)
    but = f"; {missing} of {len(gains)} were not measured" if missing else ""
    return f"nothing on this list measurably {effect} here{but}"


def harm(price: Price) -> Harm:
    """Return the worst that the drills showed; unknown while a missing drill might show harm."""
    seen = decisive(price.losses)
    if any(loss.corrupt or loss.refused for loss in seen):
        return "broken"
    if any(loss.lost_max for loss in seen):
        return "broken" if price.durability_class == "D3" else "lost"
    complete = all(_is_known(loss) and not loss.broke_off for loss in price.losses)
    return "none" if seen and complete else "unknown"


def decisive(losses: Sequence[Loss]) -> list[Drilled]:
    """Return the drills by which a candidate is judged: of several rescues, those documented to
    bring back what commits waited for, if there are any."""
    seen = [loss for loss in losses if _is_known(loss)]
    promising = {loss.fault for loss in seen if loss.promised}
    return [loss for loss in seen if loss.promised or loss.fault not in promising]


def _is_known(loss: Loss) -> TypeGuard[Drilled]:
    """True if a drill was made in which the fault happened and there was something to lose."""
    return isinstance(loss, Drilled) and loss.happened > 0 and not _is_idle(loss)


def _is_idle(loss: Drilled) -> bool:
    """True if the server came up undamaged, but no commit had been acknowledged before a fault."""
    return loss.clean > 0 and not loss.acked


def _best(prices: Sequence[Price]) -> Price | None:
    gaining = [
        price for price in prices if isinstance(price.gain, Gain) and price.gain.verdict == "better"
    ]
    return max(gaining, key=_times_better, default=None)


def _times_better(price: Price) -> float:
    """Return by how many times throughput is higher, or p99 lower if both sides held a rate."""
    assert isinstance(price.gain, Gain)
    if price.gain.compared == "latency_p99":
        return 1 / price.gain.latency_p99_ratio
    return price.gain.throughput_ratio


def _ratio(price: Price) -> str:
    assert isinstance(price.gain, Gain)
    if price.gain.compared == "latency_p99":
        return f"p99 {numbers.ratio(price.gain.latency_p99_ratio)}"
    return numbers.ratio(price.gain.throughput_ratio)


def _cuts(number: int) -> str:
    return numbers.counted(number, "cut", "cuts")
