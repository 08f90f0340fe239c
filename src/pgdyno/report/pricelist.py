"""The price list of ``pgdyno price`` as rows to read: for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pgdyno.report import numbers
from pgdyno.report.chart import Table
from pgdyno.report.story import Story

Row = Mapping[str, Any]
NAME_MAX = 26
"""Letters of a candidate's id that fit the terminal's table."""
NOT_DRILLED = "not drilled"


def prices(story: Story) -> Sequence[Row]:
    """The candidates of the result; empty when the run did not get so far, or was of another kind:
    an investigation's prices stand beside its steps."""
    if story.info.command != "price":
        return []
    return story.info.result.get("prices") or []


def head(story: Story) -> list[str]:
    """The columns' names; that of p99 says under what it was measured."""
    return [
        "candidate", "class", "throughput", p99_name(story), "drill", "cuts",
        "lost: median / worst", "ms: median / worst", "harmed ≤", "corrupt", "bound",
        "recovery",
    ]  # fmt: skip


def p99_name(story: Story) -> str:
    """What the p99 column is of: at a rate that was held, or of clients that never rest."""
    if story.info.result.get("compared") == "latency_p99":
        return "p99 at the rate"
    clients = sum(
        int(group.get("count") or 0)
        for group in story.info.spec.get("clients") or []
        if not group.get("idle")
    )
    return f"p99, {clients} clients"


def table_rows(story: Story, *, short: bool) -> list[list[str]]:
    """A row for each drill of each candidate; what a candidate buys stands in its first row."""
    return [cells for row in prices(story) for cells in _rows_of(row, short=short)]


def _rows_of(row: Row, *, short: bool) -> Iterator[list[str]]:
    name = _shortened(row["candidate"]) if short else row["title"]
    bought = [name, row["durability_class"], *_gain_cells(row["gain"])]
    for loss in row["losses"]:
        yield [*bought, *_loss_cells(loss)]
        bought = ["" if short else name, "", "", ""]


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _gain_cells(gain: Row | None) -> list[str]:
    if gain is None:
        return ["baseline", ""]
    if not gain["measured"]:
        return ["not measured", ""]
    return [
        _ratio(gain["throughput_ratio"], gain["ci95"]),
        _ratio(gain["latency_p99_ratio"], gain["latency_p99_ci95"]),
    ]


def _ratio(ratio: float, ci95: Sequence[float]) -> str:
    return f"{numbers.times(ratio)} {numbers.interval(ci95[0], ci95[1])}"


def _loss_cells(loss: Row) -> list[str]:
    """Drill, cuts, lost, ms, upper bound, corrupt, documented bound, recovery."""
    name = drill_name(loss)
    if not loss["drilled"]:
        return [name, "", NOT_DRILLED, "", "", "", "", ""]
    cuts = numbers.count(loss["happened"])
    if not loss["happened"]:
        return [name, f"0 of {loss['cuts']}", "", "", "", "", "", ""]
    return [
        name,
        cuts,
        _pair(loss["lost_median"], loss["lost_max"], lambda value: f"{value:,.10g}"),
        _pair(loss["lost_ms_median"], loss["lost_ms_max"], _short_ms),
        numbers.percent(loss["upper_bound"]),
        broken_words(loss),
        bound_words(loss),
        numbers.duration(_ms(loss["recovery_s_median"])),
    ]


def drill_name(loss: Row) -> str:
    """The fault; of one with variants, the variant."""
    return str(loss["variant"] or loss["fault"])


def broken_words(loss: Row) -> str:
    """``2 of 6``: cuts after which the database was corrupt or did not start."""
    broken = loss["corrupt"] + loss["refused"]
    return f"{broken} of {loss['happened']}"


def bound_words(loss: Row) -> str:
    """The documented bound of what may be lost, and whether more was."""
    bound = loss["bound_ms"]
    said = "none" if bound is None else ms_words(bound) if bound else "0"
    return f"{said}: exceeded" if loss["worse_than_bound"] else said


def ms_words(value_ms: float) -> str:
    """Milliseconds, or seconds from a second up: ``30 ms``, ``6 s``."""
    if value_ms < 1000:
        return f"{value_ms:.3g} ms"
    return f"{value_ms / 1000:.3g} s"


def _pair(middle: float | None, worst: float | None, say: Callable[[float], str]) -> str:
    if middle is None or worst is None:
        return numbers.ABSENT
    return f"{say(middle)} / {say(worst)}"


def _short_ms(value_ms: float) -> str:
    """Three digits, no more decimals than tell something."""
    return numbers.significant(value_ms) if value_ms >= 100 else f"{value_ms:.3g}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def table(story: Story) -> Table | None:
    """All of it as one table for the page."""
    rows = table_rows(story, short=False)
    if not rows:
        return None
    names = [numbers.capital(name) for name in head(story)]
    return Table("What each candidate buys, and what a crash takes under it", names, rows,
                 right=frozenset(range(2, len(names))) - {4})  # fmt: skip


def differences(story: Story) -> list[str]:
    """In what the two servers differ, where the list was made on two; what was asked and does not
    differ is counted."""
    against = story.info.result.get("against")
    if not against:
        return []
    asked: Sequence[Row] = story.info.result.get("differences") or []
    found = [str(each["sentence"]) for each in asked if each["differs"]]
    rest = len(asked) - len(found)
    return [
        f"held against PostgreSQL {str(against['server_version']).split(' (')[0]}, whose list is in"
        f" {against['run_file']}",
        *found,
        f"{rest} of {len(asked)} questions: no difference seen",
    ]


def sentences(story: Story) -> list[tuple[str, str]]:
    """For each candidate its title, and what it comes to with what is documented."""
    return [
        (f"{row['title']} ({row['durability_class']})", numbers.sentence(_with_bound(row)))
        for row in prices(story)
    ]


def _with_bound(row: Row) -> str:
    return "; ".join(part for part in (row["sentence"], f"documented: {row['bound']}") if part)
