"""Numbers as people read them: one spelling for every unit, shared by the terminal and the HTML.

Three significant digits unless the thing is counted; units after a space; thousands with commas.
A value that is not there is an em dash, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.stats import words
from pgdyno.stats.words import is_missing

ABSENT, significant = words.ABSENT, words.significant
times, times_short, interval = words.ratio_words, words.predicted_words, words.interval_words
percent, change_percent = words.percent_words, words.change_words


def count(value: float | None) -> str:
    """A whole number with commas."""
    return ABSENT if value is None or is_missing(value) else f"{round(value):,}"


def tps(value: float | None) -> str:
    """Transactions per second, without the unit: whole from a hundred up."""
    return significant(value) if value is None or abs(value) < 100 else count(value)


def ms_figure(value: float | None) -> str:
    """A latency in milliseconds, without its unit: three digits, but none below a microsecond."""
    if value is None or is_missing(value):
        return ABSENT
    return f"{value:.3f}" if 0 < abs(value) < 1 else significant(value)


def ms(value: float | None) -> str:
    """A latency given in milliseconds, with its unit; seconds from ten seconds up."""
    if value is None or is_missing(value):
        return ABSENT
    return f"{significant(value / 1000)} s" if abs(value) >= 10_000 else f"{ms_figure(value)} ms"


def from_to_ms(before: float | None, after: float | None) -> str:
    """Two latencies in milliseconds: ``14.8 → 8.70 ms``, the unit once if both have it."""
    first, second = ms(before), ms(after)
    unit = second.rpartition(" ")[2]
    return f"{first.removesuffix(f' {unit}')} → {second}"


def ns(value: float | None) -> str:
    """A latency given in nanoseconds."""
    return ms(None if value is None else value / 1e6)


def duration(value_ms: float | None) -> str:
    """A length of time given in milliseconds: ``45 s``, ``2 min 11 s``, ``1 h 04 min``."""
    if value_ms is None or is_missing(value_ms):
        return ABSENT
    if value_ms < 10_000:
        return f"{significant(value_ms / 1000, 2)} s"
    seconds = round(value_ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def clock(at_ms: float) -> str:
    """Time since the run's start, as on the charts' axes: ``1:05``, ``2:03:09``."""
    minutes, seconds = divmod(int(at_ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def size(value: float | None) -> str:
    """Bytes in PostgreSQL's units, powers of 1024: ``16 MB``."""
    if value is None or is_missing(value):
        return ABSENT
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1024:
            return f"{significant(value)} {unit}"
        value /= 1024
    return f"{significant(value)} TB"


UNITS: dict[str, Callable[[float], str]] = {
    "ms": ms,
    "ns": ns,
    "us": lambda value: ms(value / 1000),
    "bytes": size,
    "bytes/s": lambda value: f"{size(value)}/s",
    "share": percent,
    "%": lambda value: percent(value / 100),
    "ratio": times,
    "count": count,
    "tps": lambda value: f"{tps(value)} tps",
}
"""How the units of findings' evidence are written; others follow the number as they are."""


def measured(value: object, unit: str) -> str:
    """A finding's evidence value with its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{ABSENT if value is None else value} {unit}".strip()
    if unit in UNITS:
        return UNITS[unit](value)
    return f"{significant(value)} {unit}".strip()


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence(text: str) -> str:
    """``text`` with a capital and a period; findings and errors are stored without."""
    text = capital(text.strip())
    return f"{text}{'' if text[-1] in '.!?…:' else '.'}" if text else ""


def capital(text: str) -> str:
    """``text`` with a capital, unless it begins with the name of a setting or a variant."""
    first = text.split(" ", 1)[0]
    return text if any(sign in first for sign in "_./") else f"{text[:1].upper()}{text[1:]}"
