"""How an effect is written, and to how many digits it is kept: the same everywhere.

Ratios are kept to four decimals (tiny ones to three digits), in the run file as in JSON, and each
text is made of the ratio so kept, so that no medium rounds another number than the others.
"""

from __future__ import annotations

import math

DECIMALS = 4
ABSENT = "—"


def kept(ratio: float) -> float:
    """A ratio, or a share, as run files and JSON have it."""
    return round(ratio, DECIMALS) if abs(ratio) >= 0.01 else float(f"{ratio:.3g}")


def is_missing(value: float | None) -> bool:
    """Whether there is no number to write."""
    return value is None or not math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, never in exponent form: 14.8, 0.0621, 5,310."""
    if value is None or is_missing(value):
        return ABSENT
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    # Rounding can carry into the next magnitude: 9.996 becomes 10.0, which has one decimal less.
    magnitude = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"


def ratio_words(ratio: float | None) -> str:
    """``2.08x``; three digits from 10 up."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    return f"{kept(ratio):.2f}x" if ratio < 10 else f"{significant(kept(ratio))}x"


def predicted_words(ratio: float | None) -> str:
    """A ratio to two digits, for what is not measured: ``1.9x``."""
    return ABSENT if ratio is None or is_missing(ratio) else f"{significant(kept(ratio), 2)}x"


def interval_words(lo: float | None, hi: float | None) -> str:
    """The 95 % interval of a ratio: ``[1.97, 2.20]``; '' when there is none."""
    if lo is None or hi is None or is_missing(lo) or is_missing(hi):
        return ""
    return f"[{kept(lo):.2f}, {kept(hi):.2f}]"


def effect_words(ratio: float, lo: float, hi: float) -> str:
    """A measured ratio with its 95 % interval: ``2.08x [1.97, 2.20]``."""
    return f"{ratio_words(ratio)} {interval_words(lo, hi)}".strip()


def percent_words(share: float | None) -> str:
    """A share between 0 and 1: ``62 %``, ``3.1 %``."""
    if share is None or is_missing(share):
        return ABSENT
    percent = share * 100
    return f"{percent:.0f} %" if abs(percent) >= 10 else f"{significant(percent, 2)} %"


def change_words(ratio: float | None) -> str:
    """A ratio as a change: 0.59 is ``-41 %``, 1.02 is ``+2.0 %``."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    percent = (kept(ratio) - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"
