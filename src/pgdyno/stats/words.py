"""Format and precision of ratios: the same in all texts, in the run file and in JSON.

Ratios are rounded to four decimals (tiny ones to three significant digits) in the run file and in
JSON, and all texts are made from the rounded ratio, so that they agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

DECIMALS = 4
ABSENT = "—"


def rounded(ratio: float) -> float:
    """Return a ratio or a share, rounded as in run files and JSON."""
    return round(ratio, DECIMALS) if abs(ratio) >= 0.01 else float(f"{ratio:.3g}")


def is_missing(value: float | None) -> bool:
    """Return whether there is no number to write."""
    return value is None or not math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits, without exponent: 14.8, 0.0621,
    5,310."""
    if value is None or is_missing(value):
        return ABSENT
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    # Rounding can increase the magnitude: 9.996 becomes 10.0, which has one decimal fewer.
    magnitude = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"


def ratio_words(ratio: float | None) -> str:
    """Return ``2.08x``; three digits from 10 up."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    return f"{rounded(ratio):.2f}x" if ratio < 10 else f"{significant(rounded(ratio))}x"


def predicted_words(ratio: float | None) -> str:
    """Return a predicted ratio with two digits: ``1.9x``."""
    return ABSENT if ratio is None or is_missing(ratio) else f"{significant(rounded(ratio), 2)}x"


def prediction_words(ratio: float | None, interval: Sequence[float] | None) -> str:
    """Return a predicted ratio with the interval that the model leaves open, if both differ in
    words: ``20x (12x to 30x)``."""
    said = predicted_words(ratio)
    ends = [predicted_words(end) for end in interval or ()]
    return f"{said} ({ends[0]} to {ends[1]})" if ends and ends != [said, said] else said


def interval_words(lo: float | None, hi: float | None) -> str:
    """Return the 95 % interval of a ratio: ``[1.97, 2.20]``; '' if there is none."""
    if lo is None or hi is None or is_missing(lo) or is_missing(hi):
        return ""
    return f"[{rounded(lo):.2f}, {rounded(hi):.2f}]"


def effect_words(ratio: float, lo: float, hi: float) -> str:
    """Return a measured ratio with its 95 % interval: ``2.08x [1.97, 2.20]``."""
    return f"{ratio_words(ratio)} {interval_words(lo, hi)}".strip()


def more_pairs_words(pairs: int) -> str:
    """Return the number of further pairs that a decision needs, in words."""
    return f"about {pairs} more {'pair is' if pairs == 1 else 'pairs are'} needed"


def percent_words(share: float | None) -> str:
    """Return a share between 0 and 1 in percent: ``62 %``, ``3.1 %``."""
    if share is None or is_missing(share):
        return ABSENT
    percent = share * 100
    return f"{percent:.0f} %" if abs(percent) >= 10 else f"{significant(percent, 2)} %"


def change_words(ratio: float | None) -> str:
    """Return a ratio as a change: 0.59 is ``-41 %``, 1.02 is ``+2.0 %``."""
    if ratio is None or is_missing(ratio):
        return ABSENT
    percent = (rounded(ratio) - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"
