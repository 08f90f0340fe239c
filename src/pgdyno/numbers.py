"""Numbers in text: one spelling for each quantity, in findings, in the terminal and on the page.

Units follow after a space; thousands have commas; there is no exponent. A missing value is an em
dash, never a zero.

Ratios are rounded to four decimals (tiny ones to three significant digits) in the run file and in
JSON, and all texts are made from the rounded ratio, so that they agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

ABSENT = "—"
DECIMALS = 4
SMALL_RATIO = 0.1
"""Ratios below it would have one digit, or none, in two decimals."""
UNBOUNDED = 1e6
"""The end of an interval from which on it is no bound of a ratio."""


def is_missing(value: float | None) -> bool:
    """Return whether there is no number to write."""
    return value is None or not math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits: 14.8, 0.0621, 5,310."""
    if value is None or is_missing(value):
        return ABSENT
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    kept = round(value, digits - 1 - magnitude)
    # Rounding can increase the magnitude: 9.996 becomes 10.0, which has one decimal fewer.
    magnitude = math.floor(math.log10(abs(kept)))
    return f"{kept:,.{max(0, digits - 1 - magnitude)}f}"


def figure(value: float | None) -> str:
    """Return a number as a sentence needs it: two significant digits below 100, and whole above:
    4.1, 0.063, 62, 1,240."""
    if value is None or is_missing(value):
        return ABSENT
    return f"{value:,.0f}" if abs(value) >= 99.5 else _trimmed(significant(value, 2))


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(number: float, one: str, many: str) -> str:
    """Return a count with its noun: ``1 core``, ``2 cores``."""
    text = figure(number)
    return f"{text} {one if text == '1' else many}"


def count(value: float | None) -> str:
    """Return a whole number with commas."""
    return ABSENT if value is None or is_missing(value) else f"{round(value):,}"


def tps(value: float | None) -> str:
    """Return transactions per second without the unit; whole numbers from 100 on."""
    return significant(value) if value is None or abs(value) < 100 else count(value)


def rate(per_s: float | None) -> str:
    """Return a rate with its unit: ``12.5/s``, ``20/s``, ``1,240/s``."""
    return f"{_trimmed(tps(per_s))}/s"


def percent(share: float | None) -> str:
    """Return a share between 0 and 1 in percent: ``62 %``, ``3.1 %``, ``0.02 %``."""
    if share is None or is_missing(share):
        return ABSENT
    return f"{figure(share * 100)} %"


def rounded(ratio: float) -> float:
    """Return a ratio or a share, rounded as in run files and JSON."""
    return round(ratio, DECIMALS) if abs(ratio) >= 0.01 else float(f"{ratio:.3g}")


def ratio(value: float | None) -> str:
    """Return ``2.08x``; three digits from 10 up, two digits below 0.1."""
    if value is None or is_missing(value):
        return ABSENT
    kept = rounded(value)
    if abs(kept) < SMALL_RATIO:
        return f"{significant(kept, 2)}x"
    return f"{kept:.2f}x" if value < 10 else f"{significant(kept)}x"


def predicted(ratio: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a predicted ratio with two digits, and with the interval that the model leaves open if
    both differ in words: ``1.9x``, ``20x (12x to 30x)``."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    said, *ends = (f"{significant(rounded(each), 2)}x" for each in (ratio, *(interval or ())))
    return f"{said} ({ends[0]} to {ends[1]})" if ends and ends != [said, said] else said


def interval(lo: float | None, hi: float | None) -> str:
    """Return the 95 % interval of a ratio: ``[1.97, 2.20]``; '' if there is none."""
    if lo is None or hi is None or is_missing(lo) or is_missing(hi):
        return ""
    return f"[{rounded(lo):.2f}, {f'{rounded(hi):.2f}' if hi < UNBOUNDED else '∞'}]"


def effect(measured: float, lo: float, hi: float) -> str:
    """Return a measured ratio with its 95 % interval: ``2.08x [1.97, 2.20]``."""
    return f"{ratio(measured)} {interval(lo, hi)}".strip()


def change_percent(ratio: float | None) -> str:
    """Return a ratio as a change: 0.59 is ``-41 %``, 1.02 is ``+2.0 %``."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    percent = (rounded(ratio) - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"


def ms_figure(value_ms: float | None) -> str:
    """Return a latency in milliseconds without the unit: three digits, none below a microsecond."""
    if value_ms is None or is_missing(value_ms):
        return ABSENT
    return f"{value_ms:.3f}" if 0 < abs(value_ms) < 1 else significant(value_ms)


def ms(value_ms: float | None) -> str:
    """Return a latency with its unit: in milliseconds, so that latencies compare; in seconds from
    10 s on."""
    if value_ms is None or is_missing(value_ms):
        return ABSENT
    if abs(value_ms) >= 10_000:
        return f"{significant(value_ms / 1000)} s"
    return f"{ms_figure(value_ms)} ms"


def from_to_ms(before_ms: float | None, after_ms: float | None) -> str:
    """Return two latencies: ``14.8 → 8.70 ms``."""
    first, second = ms(before_ms), ms(after_ms)
    unit = second.rpartition(" ")[2]
    return f"{first.removesuffix(f' {unit}')} → {second}"


def ns(value_ns: float | None) -> str:
    """Return a latency with its unit, as ``ms`` does."""
    return ms(None if value_ns is None else value_ns / 1e6)


def duration(seconds: float | None) -> str:
    """Return a duration: ``35 ms``, ``4.12 s``, ``45 s``, ``2 min 11 s``, ``1 h 04 min``,
    ``3 days 4 h``."""
    if seconds is None or is_missing(seconds):
        return ABSENT
    if 0 < abs(seconds) < 0.9995:
        return f"{_trimmed(significant(1000 * seconds))} ms"
    if round(seconds) < 60:
        return f"{_trimmed(significant(seconds)) if seconds < 10 else round(seconds)} s"
    if round(seconds) < 3600:
        return _in_two_units(seconds, "min", 60, "s", 1)
    if round(seconds / 60) < 48 * 60:
        return _in_two_units(seconds, "h", 60, "min", 60)
    return _in_two_units(seconds, "days", 24, "h", 3600)


def _in_two_units(seconds: float, unit: str, ratio: int, smaller: str, smaller_s: int) -> str:
    """Return ``2 min 11 s``; ``smaller`` is left out if there are none of it."""
    whole, rest = divmod(round(seconds / smaller_s), ratio)
    text = f"{rest:02d}" if smaller_s < 3600 else f"{rest}"
    return f"{whole:,} {unit}" + (f" {text} {smaller}" if rest else "")


def clock(seconds: float) -> str:
    """Return the time since the start of the run, as on the charts: ``1:05``, ``2:03:09``."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def size(size_bytes: float | None) -> str:
    """Return a size in PostgreSQL's units, powers of 1024: ``512 B``, ``1.23 GB``, ``16 MB``."""
    if size_bytes is None or is_missing(size_bytes):
        return ABSENT
    value, units = size_bytes, ["B", "kB", "MB", "GB", "TB"]
    while round(abs(value)) >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    text = _trimmed(significant(value)) if abs(value) < 100 else f"{value:,.0f}"
    return f"{text} {units[0]}"


UNITS: dict[str, Callable[[float], str]] = {
    "ms": ms,
    "ns": ns,
    "us": lambda value: ms(value / 1000),
    "s": duration,
    "bytes": size,
    "bytes/s": lambda value: f"{size(value)}/s",
    "share": percent,
    "%": lambda value: percent(value / 100),
    "ratio": ratio,
    "count": count,
    "count/s": rate,
    "tps": lambda value: f"{tps(value)} tps",
}
"""Formats of the units of findings' evidence; other units follow the number unchanged."""


def measured(value: object, unit: str) -> str:
    """Return a value of a finding's evidence with its unit; None is unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{value} {unit}".strip()
    if unit in UNITS:
        return UNITS[unit](value)
    return f"{significant(value)} {unit}".strip()


def listed(names: Sequence[str], most: int | None = 3) -> str:
    """Return ``a``, ``a and b``, ``a, b and c`` or, of more than ``most``, ``a, b, c and 4 more``;
    None: all of them."""
    parts = list(names[:most])
    if len(parts) < len(names):
        parts.append(f"{len(names) - len(parts):,} more")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
