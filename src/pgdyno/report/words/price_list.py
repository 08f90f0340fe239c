"""The price list of ``pgdyno price`` as rows to read: for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdyno.price.sentences import ms_words
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers
from pgdyno.report.words.sentences import how_set
from pgdyno.report.words.tables import Table
from pgdyno.results.loss import Drilled, Loss
from pgdyno.results.price import Gain, NotMeasured, Price, PriceResult
from pgdyno.stats.words import effect_words

_TAIL = 6
"""Of a long name, the letters at its end that are kept: the value."""
HELD_SHARE = 0.7
"""Of the baseline's throughput, the rate at which its latency is worth asking for: high enough to
matter, and below what makes it queue."""
NOT_DRILLED = "not drilled"


def prices(story: RunSummary) -> Sequence[Price]:
    """Return the entries of a price list; empty for a run without one. An investigation's prices
    are shown with its steps."""
    return story.result.prices if isinstance(story.result, PriceResult) else ()


def gain_head(story: RunSummary) -> list[str]:
    """The columns of what each candidate buys; that of p99 says under what it was measured."""
    if _held(story) and all(_held(story)):
        p99 = "p99 at the rate"
    else:
        p99 = "p99" if _sent_at_a_rate(story) else "p99, saturated"
    return ["what it buys", "class", "throughput", p99]


def _measured(story: RunSummary) -> list[Gain]:
    """Return the measured gains."""
    return [price.gain for price in prices(story) if isinstance(price.gain, Gain)]


def _held(story: RunSummary) -> list[bool]:
    """Return for each gain whether clients held a rate on both sides."""
    return [gain.compared == "latency_p99" for gain in _measured(story)]


def _at_work(story: RunSummary) -> list[Mapping[str, Any]]:
    groups: Sequence[Mapping[str, Any]] = story.info.spec.get("clients") or []
    return [group for group in groups if not group.get("idle")]


def _sent_at_a_rate(story: RunSummary) -> bool:
    return all(isinstance(group.get("arrival"), Mapping) for group in _at_work(story))


LOSS_HEAD = (
    "what a crash takes", "cuts", "lost (median)", "ms (median)", "harm ≤", "broken", "bound",
    "up in",
)  # fmt: skip
"""The columns of the drills."""


def gain_rows(story: RunSummary, *, name_max: int | None = None) -> list[list[str]]:
    """A row for each candidate."""
    return [
        [_name(number, price, name_max), price.durability_class, *_gain_cells(price.gain)]
        for number, price in enumerate(prices(story), start=1)
    ]


def loss_rows(story: RunSummary, *, name_max: int | None = None) -> list[list[str]]:
    """A row for each drill of each candidate; empty when nothing was drilled at all. With
    ``name_max`` a candidate's name stands in the first of its rows only."""
    if not any(loss.drilled for price in prices(story) for loss in price.losses):
        return []
    return [
        [
            "" if position and name_max else _name(number, price, name_max),
            drill_name(loss),
            *_loss_cells(loss),
        ]
        for number, price in enumerate(prices(story), start=1)
        for position, loss in enumerate(price.losses)
    ]


def _name(number: int, price: Price, name_max: int | None) -> str:
    """The number that the chart has for it too, and its short name."""
    name = price.candidate
    if name_max is not None and len(name) > name_max:
        name = f"{name[: name_max - 1 - _TAIL]}…{name[-_TAIL:]}"
    return f"{number:>2} {name}"


def p99_words(story: RunSummary) -> str:
    """What a p99 is worth that was not measured at a rate, and how to have a better one; '' where
    it was."""
    held, gains = _held(story), _measured(story)
    if not gains or all(held):
        return ""
    sustained = max(HELD_SHARE * min(gain.baseline_tps for gain in gains), 1)
    ask = f"-R {sustained:.0f} is {numbers.percent(HELD_SHARE)} of what the baseline did"
    if _sent_at_a_rate(story):
        return (
            f"the rate was not held on both sides of {held.count(False)} of {len(held)}: there"
            " throughput was compared, and p99 is that of a queue. Longer slices (--budget) or a"
            f" lower rate help; {ask}"
        )
    clients = sum(int(group.get("count") or 0) for group in _at_work(story))
    return (
        f"that of {clients} clients that never rest; for the p99 of a server that keeps up let them"
        f" send at a rate: {ask}"
    )


def _gain_cells(gain: Gain | NotMeasured | None) -> list[str]:
    if gain is None:
        return ["baseline", ""]
    if isinstance(gain, NotMeasured):
        return ["not measured", ""]
    return [
        effect_words(gain.throughput_ratio, *gain.ci95),
        effect_words(gain.latency_p99_ratio, *gain.latency_p99_ci95),
    ]


def _loss_cells(loss: Loss) -> list[str]:
    """Cuts, lost, ms, upper bound, broken, documented bound, recovery."""
    if not isinstance(loss, Drilled):
        return ["", NOT_DRILLED, "", "", "", "", ""]
    happened = loss.happened
    if not happened:
        return [f"0 of {loss.cuts}", "", "", "", "", "", ""]
    return [
        numbers.count(happened),
        _worst(loss.lost_max, loss.lost_median, lambda value: f"{value:,.0f}"),
        _worst(loss.lost_ms_max, loss.lost_ms_median, _short_ms),
        numbers.percent(loss.upper_bound),
        broken_words(loss),
        bound_words(loss),
        numbers.duration(_ms(loss.recovery_s_median)),
    ]


def drill_name(loss: Loss) -> str:
    """The fault; of one with variants, the variant."""
    return loss.variant or loss.fault


def broken_words(loss: Drilled) -> str:
    """``2 of 6``: cuts after which the database was corrupt or did not start."""
    broken = loss.corrupt + loss.refused
    return f"{broken} of {loss.happened}"


def bound_words(loss: Drilled) -> str:
    """The documented bound of what may be lost, and whether more was."""
    bound = loss.bound_ms
    said = "none" if bound is None else ms_words(bound) if bound else "0"
    return f"over {said}" if loss.worse_than_bound else said


def _worst(worst: float | None, middle: float | None, say: Callable[[float], str]) -> str:
    """The worst cut and the median; of nothing, nothing."""
    if middle is None or worst is None:
        return numbers.ABSENT
    return f"{say(worst)} ({say(middle)})" if worst else "0"


def _short_ms(value_ms: float) -> str:
    """Three digits, no more decimals than tell something."""
    return numbers.significant(value_ms) if value_ms >= 100 else f"{value_ms:.3g}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def tables(story: RunSummary) -> list[Table]:
    """What each candidate buys and what a crash takes, for the page."""
    if not prices(story):
        return []
    _, *bought = gain_head(story)
    _, *taken = LOSS_HEAD
    found = [_table("What each candidate buys", ["candidate", *bought], gain_rows(story), 2)]
    if rows := loss_rows(story):
        found.append(_table("What a crash takes under it", ["candidate", "drill", *taken], rows, 2))
    return found


def _table(caption: str, head: Sequence[str], rows: list[list[str]], left: int) -> Table:
    """A table whose first ``left`` columns hold words."""
    names = [numbers.capital(name) for name in head]
    return Table(caption, names, rows, right=frozenset(range(left, len(names))))


def differences(story: RunSummary) -> list[str]:
    """In what the two servers differ, where the list was made on two; what was asked and does not
    differ is counted."""
    result = story.result
    if not isinstance(result, PriceResult) or result.against is None:
        return []
    against, asked = result.against, result.differences or ()
    found = [each.sentence for each in asked if each.differs]
    rest = len(asked) - len(found)
    return [
        f"held against PostgreSQL {against.server_version.split(' (')[0]}, whose list is in"
        f" {against.run_file}",
        *found,
        f"{rest} of {len(asked)} questions: no difference seen",
    ]


def sentences(story: RunSummary) -> list[tuple[str, str]]:
    """Return each candidate's title, and its sentence with the documented bound."""
    return [
        (
            f"{price.title} ({price.durability_class})",
            numbers.sentence("; ".join([*sentence_parts(price), f"documented: {price.bound}"])),
        )
        for price in prices(story)
    ]


def sentence_parts(price: Price) -> list[str]:
    """Return a candidate's sentence, and how the trial of its gain set the settings."""
    set_by = how_set(price.gain.set_by) if isinstance(price.gain, Gain) else ""
    return [part for part in (price.sentence, set_by and f"in the trial {set_by}") if part]
