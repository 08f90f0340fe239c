"""The price list of ``pgdyno price`` as rows and sentences, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.json_types import Fields
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import prose
from pgdyno.report.words.sentences import how_set
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.results.loss import Drilled, Loss
    from pgdyno.results.price import Gain, Price, PriceResult

COMMAND = "price"
_VALUE_LETTERS = 6
"""Letters kept at the end of a shortened name: the value."""
HELD_SHARE = 0.7
"""Share of the baseline's throughput that is suggested as a rate for measuring latency: high enough
to matter, low enough that no queue builds up."""
NOT_DRILLED = "not drilled"
LOSS_HEAD = (
    "loss in a crash", "cuts", "lost (median)", "ms (median)", "harm ≤", "broken", "bound",
    "up in",
)  # fmt: skip
"""Heads of the columns of the drills."""


def result_of(summary: RunSummary) -> PriceResult | None:
    """Return the recorded price list; None if there is none."""
    found: PriceResult | None = summary.result_of(COMMAND)
    return found


def prices(summary: RunSummary) -> Sequence[Price]:
    """Return the candidates of the price list; empty if there is none."""
    result = result_of(summary)
    return result.prices if result else ()


def gain_of(price: Price) -> Gain | None:
    """Return the gain of a candidate; None for the baseline, and if it was not measured."""
    from pgdyno.results.price import Gain

    return price.gain if isinstance(price.gain, Gain) else None


def gain_head(summary: RunSummary) -> list[str]:
    """Return the heads of the columns of gains; that of p99 says under which load it was
    measured."""
    if _held(summary) and all(_held(summary)):
        p99 = "p99 at the rate"
    else:
        p99 = "p99" if _sent_at_a_rate(summary) else "p99, saturated"
    return ["gain", "class", "throughput", p99]


def measured_gains(summary: RunSummary) -> list[Gain]:
    """Return the gains that were measured."""
    return [gain for row in prices(summary) if (gain := gain_of(row)) is not None]


def _held(summary: RunSummary) -> list[bool]:
    """Return for each gain whether clients held a rate on both sides."""
    return [gain.compared == "latency_p99" for gain in measured_gains(summary)]


def _active_groups(summary: RunSummary) -> list[Fields]:
    """Return the client groups of the spec that are not idle."""
    groups: Sequence[Fields] = summary.info.spec.get("clients") or []
    return [group for group in groups if not group.get("idle")]


def _sent_at_a_rate(summary: RunSummary) -> bool:
    return all(isinstance(group.get("arrival"), Mapping) for group in _active_groups(summary))


def gain_rows(summary: RunSummary, *, name_max: int | None = None) -> list[list[str]]:
    """Return a row for each candidate."""
    return [
        [_name(number, row, name_max), row.durability_class, *_gain_cells(row)]
        for number, row in enumerate(prices(summary), start=1)
    ]


def loss_rows(summary: RunSummary, *, name_max: int | None = None) -> list[list[str]]:
    """Return a row for each drill of each candidate; empty if nothing was drilled. With
    ``name_max``, only the first row of a candidate has its name."""
    if not any(loss.drilled for row in prices(summary) for loss in row.losses):
        return []
    return [
        [
            "" if index and name_max else _name(number, row, name_max),
            drill_name(loss),
            *_loss_cells(loss),
        ]
        for number, row in enumerate(prices(summary), start=1)
        for index, loss in enumerate(row.losses)
    ]


def _name(number: int, row: Price, name_max: int | None) -> str:
    """Return the number of the candidate, as in the chart, and its short name."""
    name = row.candidate
    if name_max is not None and len(name) > name_max:
        name = f"{name[: name_max - 1 - _VALUE_LETTERS]}…{name[-_VALUE_LETTERS:]}"
    return f"{number:>2} {name}"


def p99_words(summary: RunSummary) -> str:
    """Return why a p99 that was not measured at a rate says little, and how to measure a better
    one; '' if it was measured at a rate."""
    held, gains = _held(summary), measured_gains(summary)
    if not gains or all(held):
        return ""
    lowest = min(gain.baseline_tps for gain in gains)
    option = (
        f"-R {max(HELD_SHARE * lowest, 1):.0f} is {numbers.percent(HELD_SHARE)} of the lowest"
        f" baseline of the trials, {numbers.tps(lowest)} tps"
    )
    if _sent_at_a_rate(summary):
        return (
            f"in {held.count(False)} of {len(held)} trials the rate was not held on both sides;"
            " they compare throughput, and their p99 includes a growing queue. Use longer slices"
            f" (--budget) or a lower rate; {option}"
        )
    clients = sum(int(group.get("count") or 0) for group in _active_groups(summary))
    return (
        f"measured with {clients} clients that send without pauses; to measure p99 below"
        f" saturation, send at a rate: {option}"
    )


def _gain_cells(row: Price) -> list[str]:
    gain = gain_of(row)
    if gain is None:
        return ["not measured" if row.gain else "baseline", ""]
    return [
        numbers.effect(gain.throughput_ratio, *gain.ci95),
        numbers.effect(gain.latency_p99_ratio, *gain.latency_p99_ci95),
    ]


def _loss_cells(loss: Loss) -> list[str]:
    """Return cuts, lost commits, milliseconds, upper bound, broken, documented bound, recovery."""
    if not loss.drilled:
        return ["", NOT_DRILLED, "", "", "", "", ""]
    if not loss.happened:
        return [f"0 of {loss.cuts}", "", "", "", "", "", ""]
    return [
        numbers.count(loss.happened),
        _worst_and_median(loss.lost_max, loss.lost_median, numbers.count),
        _worst_and_median(loss.lost_ms_max, loss.lost_ms_median, numbers.ms_figure),
        numbers.percent(loss.upper_bound),
        broken_words(loss),
        bound_words(loss),
        numbers.duration(loss.recovery_s_median),
    ]


def drill_name(loss: Loss) -> str:
    """Return the fault, or its variant if it has several."""
    return loss.variant or loss.fault


def broken_words(loss: Drilled) -> str:
    """Return ``2 of 6``: cuts after which the database was corrupt or did not start."""
    return f"{loss.corrupt + loss.refused} of {loss.happened}"


def bound_words(loss: Drilled) -> str:
    """Return the documented bound of the loss, with "over" if it was exceeded."""
    bound = loss.bound_ms
    words = "none" if bound is None else numbers.duration(bound / 1000) if bound else "0"
    return f"over {words}" if loss.worse_than_bound else words


def _worst_and_median(
    worst: float | None, median: float | None, spell: Callable[[float], str]
) -> str:
    """Return the worst cut with the median in parentheses; ``0`` if nothing was lost."""
    if median is None or worst is None:
        return numbers.ABSENT
    return f"{spell(worst)} ({spell(median)})" if worst else "0"


def tables(summary: RunSummary) -> list[Table]:
    """Return the tables of gains and of losses, for the page."""
    if not prices(summary):
        return []
    _, *gains = gain_head(summary)
    _, *losses = LOSS_HEAD
    found = [_table("Gain of each candidate", ["candidate", *gains], gain_rows(summary), 2)]
    if rows := loss_rows(summary):
        found.append(_table("Loss in a crash", ["candidate", "drill", *losses], rows, 2))
    return found


def _table(caption: str, head: Sequence[str], rows: list[list[str]], left: int) -> Table:
    """Return a table whose first ``left`` columns hold words."""
    names = [prose.capital(name) for name in head]
    return Table(caption, names, rows, right=frozenset(range(left, len(names))), wide=True)


def differences(summary: RunSummary) -> list[str]:
    """Return the differences between the two servers of a list made on two, and the number of
    comparisons without a difference."""
    result = result_of(summary)
    if result is None or result.against is None:
        return []
    against, compared = result.against, result.differences or ()
    found = [each.sentence for each in compared if each.differs]
    rest = len(compared) - len(found)
    return [
        f"compared with PostgreSQL {against.server_version.split(' (')[0]}, whose list is in"
        f" {against.run_file}",
        *found,
        f"no difference in {rest} of {len(compared)} comparisons",
    ]


def sentences(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the title of each candidate, and its gain and loss in a sentence with the documented
    bound."""
    return [
        (
            f"{price.title} ({price.durability_class})",
            prose.sentence("; ".join([*sentence_parts(price), f"documented: {price.bound}"])),
        )
        for price in prices(summary)
    ]


def sentence_parts(price: Price) -> list[str]:
    """Return a candidate's sentence, and how the trial of its gain set the settings."""
    gain = gain_of(price)
    set_by = how_set(gain.set_by) if gain else ""
    return [part for part in (price.sentence, set_by and f"trial: {set_by}") if part]
