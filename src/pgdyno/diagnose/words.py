"""Numbers within a finding's sentence, at the precision that a sentence needs."""

from __future__ import annotations


def figure(value: float) -> str:
    """Two significant digits below 100, whole above: 4.1, 0.063, 62, 1,240."""
    if value == 0:
        return "0"
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    if abs(value) >= 9.95:
        return f"{value:.0f}"
    return f"{float(f'{value:.2g}'):g}"


def percent(share: float) -> str:
    """Format a share of 0 to 1 as ``62 %``."""
    return f"{figure(share * 100)} %"


def counted(number: float, one: str, many: str) -> str:
    """Format a count: ``1 core``, ``2 cores``."""
    return f"{figure(number)} {one if number == 1 else many}"
