"""Vacuum in words: the tables of a run, its vacuums, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno import numbers
from pgdyno.report.words import prose
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.results.run_parts import TableState, TableVacuum, VacuumEffect, Vacuums
from pgdyno.stats import CONTRAST_MIN

NAMED_MAX = 3
ROWS_MAX = 20
"""Vacuums on the page, those seen for the longest time; --format json has all."""
DEAD_MATTERS = 0.1
"""Share of dead rows from which a table is named in the short summary."""
TABLES_HEAD = (
    *("table", "live", "dead", "dead share", "size", "of dead rows", "size per row", "vacuums"),
    *("XID age", "multixact age", "TOAST XID age", "TOAST multixact age"),
)
VACUUMS_HEAD = (
    *("vacuum", "count", "seconds", "phases", "scanned", "pages/s", "time left", "index passes"),
    *("memory", "asleep"),
)
EFFECTS_HEAD = ("while it ran", "seconds", "without any", "throughput", "p99")
ALL = "any vacuum"


def sentences(found: Vacuums) -> dict[str, str]:
    """Return label and sentence for a short summary; empty ones are left out."""
    said = {"vacuum": _vacuums(found), "dead rows": _dead(found.tables)}
    return {label: text for label, text in said.items() if text}


def _vacuums(found: Vacuums) -> str:
    """Return which vacuums were seen, and what the load did meanwhile."""
    if not found.vacuums:
        return ""
    seen = [f"{title(each)} ({_seconds(each)} s)" for each in found.vacuums]
    left = next((_left(each) for each in found.vacuums if each.left_s), "")
    return f"{numbers.listed(seen, NAMED_MAX)}{left}; {effect_words(found.effect)}"


def _left(each: TableVacuum) -> str:
    return f"; {title(each)} was not over: its scan would have taken {_time(each.left_s)} further"


def _dead(tables: Sequence[TableState]) -> str:
    """Return the tables with many dead rows."""
    many = sorted((t for t in tables if _share(t) >= DEAD_MATTERS), key=lambda t: -t.dead)
    return ", ".join(
        f"{t.relation}: {t.dead:,} ({numbers.percent(_share(t))} of its rows"
        + (f", about {numbers.size(t.dead_bytes)})" if t.dead_bytes else ")")
        for t in many[:NAMED_MAX]
    )


def title(each: TableVacuum) -> str:
    """Return the name of vacuums of a table."""
    kind = "autovacuum" if each.automatic else "vacuum"
    wraparound = " to prevent wraparound" if each.to_prevent_wraparound else ""
    failsafe = ", in the failsafe" if each.failsafe else ""
    return f"{kind} of {each.relation}{wraparound}{failsafe}"


def effect_words(effect: VacuumEffect) -> str:
    """Return the figures of the load during vacuums."""
    held = (
        f"; {effect.seconds_held} s left out, in which a queue for a lock held the load"
        if effect.seconds_held
        else ""
    )
    if effect.throughput_ratio is None:
        both = f"{effect.seconds_during} with and {effect.seconds_without} without"
        return f"{_unknown(effect)} to compare, {both}{held}"
    p99 = (
        f", p99 {_ratio(effect.latency_p99_ratio, effect.latency_p99_ci95)}"
        if effect.latency_p99_ratio is not None
        else ""
    )
    return (
        f"throughput {_ratio(effect.throughput_ratio, effect.throughput_ci95)}{p99} in these"
        f" {effect.seconds_during} s, over that of the {effect.seconds_without} s without a vacuum"
        f"{held}"
    )


def _unknown(effect: VacuumEffect) -> str:
    """Return the reason why there is no ratio."""
    few = min(effect.seconds_during, effect.seconds_without) < CONTRAST_MIN
    return "too few seconds" if few else "seconds too different among themselves"


def _ratio(ratio: float | None, bounds: tuple[float, float] | None) -> str:
    if ratio is None or bounds is None:
        return ""
    return f"{ratio:.2f}x [{bounds[0]:.2f}, {bounds[1]:.2f}]"


def _seconds(each: TableVacuum) -> int:
    return sum(phase.seconds for phase in each.phases)


def _share(table: TableState) -> float:
    rows = table.live + table.dead
    return table.dead / rows if rows else 0.0


def tables(found: Vacuums | None) -> list[Table]:
    """Return vacuums and tables as tables of the page."""
    if found is None:
        return []
    made = (
        _filled("Vacuums that were seen", VACUUMS_HEAD, _vacuum_rows(found)),
        figures_table(
            "The load during vacuums, with 95 % intervals", EFFECTS_HEAD, _effect_rows(found)
        ),
        _filled("Tables at the end", TABLES_HEAD, _table_rows(found)),
    )
    return [each for each in made if each.rows]


def _filled(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without columns that are empty in all rows."""
    kept = [
        place
        for place in range(len(head))
        if any(row[place] not in ("", numbers.ABSENT) for row in rows)
    ]
    return figures_table(
        caption, [head[place] for place in kept], [[row[place] for place in kept] for row in rows]
    )


def _effect_rows(found: Vacuums) -> list[list[str]]:
    several = [(ALL, found.effect)] if len(found.vacuums) > 1 else []
    return [
        [
            name,
            str(effect.seconds_during),
            str(effect.seconds_without),
            _ratio(effect.throughput_ratio, effect.throughput_ci95) or _unknown(effect),
            _ratio(effect.latency_p99_ratio, effect.latency_p99_ci95),
        ]
        for name, effect in [
            *((title(each), each.effect) for each in found.vacuums[:ROWS_MAX]),
            *several,
        ]
    ]


def page_sentences(found: Vacuums | None) -> list[str]:
    """Return the notes below these tables on the page."""
    if found is None:
        return []
    ages = (
        f"the oldest transaction ID of all databases is {numbers.count(found.xid_age)} old, the"
        f" oldest multixact {numbers.count(found.mxid_age)}"
        if found.xid_age is not None
        else ""
    )
    compared = (
        f"{effect_words(found.effect)}; what else happened in these seconds is part of that"
        if found.vacuums
        else ""
    )
    return [prose.sentence(text) for text in (compared, ages, _members(found)) if text]


def _members(found: Vacuums) -> str:
    """Return how many members of multixacts there are; '' if it is not known."""
    if found.members_share is not None:
        return (
            f"{numbers.percent(found.members_share)} of the room for members of multixacts is used"
        )
    if found.members is None:
        return ""
    return f"multixacts have {numbers.count(found.members)} members, which has no limit"


def _vacuum_rows(found: Vacuums) -> list[list[str]]:
    return [
        [
            title(each),
            str(each.count),
            str(_seconds(each)),
            ", ".join(f"{phase.phase} {phase.seconds} s" for phase in each.phases),
            _percent(each.scanned_share),
            numbers.count(each.pages_per_s),
            _time(each.left_s),
            str(each.index_passes),
            _percent(each.memory_share),
            _percent(each.asleep_share),
        ]
        for each in found.vacuums[:ROWS_MAX]
    ]


def _table_rows(found: Vacuums) -> list[list[str]]:
    return [
        [
            each.relation,
            f"{each.live:,}",
            f"{each.dead:,}",
            numbers.percent(_share(each)),
            "" if each.size_bytes is None else numbers.size(each.size_bytes),
            "" if each.dead_bytes is None else numbers.size(each.dead_bytes),
            "" if each.growth is None else f"{each.growth:.2f}x",
            str(each.vacuums + each.autovacuums),
            numbers.count(each.xid_age),
            numbers.count(each.mxid_age),
            numbers.count(each.toast_xid_age),
            numbers.count(each.toast_mxid_age),
        ]
        for each in found.tables
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else numbers.percent(share)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else numbers.duration(seconds)
