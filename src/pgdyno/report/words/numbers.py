"""Formatting of numbers: one spelling for each unit, for the terminal and the page.

Three significant digits, except for counts; units after a space; thousands with commas. A missing
value is an em dash, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.stats import words
from pgdyno.stats.words import is_missing

ABSENT, significant = words.ABSENT, words.significant
times, times_short, interval = words.ratio_words, words.predicted_words, words.interval_words
predicted = words.prediction_words
percent, change_percent = words.percent_words, words.change_words
SMALL_RATIO = 0.1
"""Ratios below it would have one digit, or none."""


def count(value: float | None) -> str:
    """Return a whole number with commas."""
    return ABSENT if value is None or is_missing(value) else f"{round(value):,}"


def tps(value: float | None) -> str:
    """Return transactions per second without the unit; whole numbers from 100 on."""
    return significant(value) if value is None or abs(value) < 100 else count(value)


def ms_figure(value: float | None) -> str:
    """Return a latency in milliseconds without the unit: three digits, none below a microsecond."""
    if value is None or is_missing(value):
        return ABSENT
    return f"{value:.3f}" if 0 < abs(value) < 1 else significant(value)


def ms(value: float | None) -> str:
    """Return a latency given in milliseconds with its unit; in seconds from 10 s on."""
    if value is None or is_missing(value):
        return ABSENT
    return f"{significant(value / 1000)} s" if abs(value) >= 10_000 else f"{ms_figure(value)} ms"


def from_to_ms(before: float | None, after: float | None) -> str:
    """Return two latencies given in milliseconds: ``14.8 → 8.70 ms``."""
    first, second = ms(before), ms(after)
    unit = second.rpartition(" ")[2]
    return f"{first.removesuffix(f' {unit}')} → {second}"


def ns(value: float | None) -> str:
    """Return a latency given in nanoseconds with its unit."""
    return ms(None if value is None else value / 1e6)


def duration(value_ms: float | None) -> str:
    """Return a duration given in milliseconds: ``45 s``, ``2 min 11 s``, ``1 h 04 min``."""
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
    """Return the time since the start of the run, as on the charts: ``1:05``, ``2:03:09``."""
    minutes, seconds = divmod(int(at_ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def ratio(value: float | None) -> str:
    """Return a ratio, with two digits however small it is; nothing if there is none."""
    if not value:
        return ""
    return times(value) if value >= SMALL_RATIO else f"{significant(value, 2)}x"


def size(value: float | None) -> str:
    """Return bytes in PostgreSQL's units, powers of 1024: ``16 MB``."""
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
"""Formats of the units of findings' evidence; other units follow the number unchanged."""


def measured(value: object, unit: str) -> str:
    """Return a value of a finding's evidence with its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{ABSENT if value is None else value} {unit}".strip()
    if unit in UNITS:
        return UNITS[unit](value)
    return f"{significant(value)} {unit}".strip()


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence(text: str) -> str:
    """Return ``text`` with a capital and a period; findings and errors are stored without them."""
    text = capital(text.strip())
    return f"{text}{'' if text[-1] in '.!?…:' else '.'}" if text else ""


def capital(text: str) -> str:
    """Return ``text`` with a capital, unless it begins with the name of a setting or a variant, a
    percentile or a unit."""
    first = text.split(" ", 1)[0].rstrip(",")
    is_symbol = first == "ms" or (first[:1] == "p" and first[1:2].isdigit())
    return (
        text
        if is_symbol or any(sign in first for sign in "_./")
        else f"{text[:1].upper()}{text[1:]}"
    )
