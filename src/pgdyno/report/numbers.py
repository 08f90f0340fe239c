"""Numbers as people read them: one spelling for every unit, shared by the terminal and the HTML.

Three significant digits unless the thing is counted; units after a space; thousands with commas.
A value that is not there is an em dash, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

ABSENT = "—"


def _missing(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, never in exponent form: 14.8, 0.0621, 5,310."""
    if value is None or _missing(value):
        return ABSENT
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    # Rounding can carry into the next magnitude: 9.996 becomes 10.0, which has one decimal less.
    magnitude = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"


def count(value: float | None) -> str:
    """A whole number with commas."""
    return ABSENT if value is None or _missing(value) else f"{round(value):,}"


def tps(value: float | None) -> str:
    """Transactions per second, without the unit: whole from a hundred up."""
    return significant(value) if value is None or abs(value) < 100 else count(value)


def ms_figure(value: float | None) -> str:
    """A latency in milliseconds, without its unit: three digits, but none below a microsecond."""
    if value is None or _missing(value):
        return ABSENT
    return f"{value:.3f}" if 0 < abs(value) < 1 else significant(value)


def ms(value: float | None) -> str:
    """A latency given in milliseconds, with its unit; seconds from ten seconds up."""
    if value is None or _missing(value):
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


def times(ratio: float | None) -> str:
    """A ratio: ``2.08x``."""
    if ratio is None or _missing(ratio):
        return ABSENT
    return f"{ratio:.2f}x" if ratio < 10 else f"{significant(ratio)}x"


def times_short(ratio: float | None) -> str:
    """A ratio to two digits, for what is not measured finely: ``1.9x``."""
    return ABSENT if ratio is None or _missing(ratio) else f"{significant(ratio, 2)}x"


def interval(lo: float | None, hi: float | None) -> str:
    """The 95 % interval of a ratio: ``[1.97, 2.20]``; empty when there is none."""
    if lo is None or hi is None or _missing(lo) or _missing(hi):
        return ""
    return f"[{lo:.2f}, {hi:.2f}]"


def change_percent(ratio: float | None) -> str:
    """A ratio as a change: 0.59 is ``-41 %``, 1.02 is ``+2.0 %``."""
    if ratio is None or _missing(ratio):
        return ABSENT
    percent = (ratio - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"


def percent(share: float | None) -> str:
    """A share between 0 and 1: ``62 %``, ``3.1 %``."""
    if share is None or _missing(share):
        return ABSENT
    hundredth = share * 100
    return f"{hundredth:.0f} %" if abs(hundredth) >= 10 else f"{significant(hundredth, 2)} %"


def duration(value_ms: float | None) -> str:
    """A length of time given in milliseconds: ``45 s``, ``2 min 11 s``, ``1 h 04 min``."""
    if value_ms is None or _missing(value_ms):
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
    if value is None or _missing(value):
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
