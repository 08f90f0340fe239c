"""Numbers within a finding's sentence, at the precision that a sentence needs."""

from __future__ import annotations

from collections.abc import Sequence


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
    text = figure(number)
    return f"{text} {one if text == '1' else many}"


def duration(seconds: float) -> str:
    """Format a time span in a fitting unit: ``12 s``, ``8 min``, ``3.4 h``, ``5 days``."""
    for unit_s, unit in ((2 * 86400.0, "days"), (2 * 3600.0, "h"), (120.0, "min")):
        if seconds >= unit_s:
            return f"{figure(seconds / _SECONDS[unit])} {unit}"
    return f"{figure(seconds)} s"


_SECONDS = {"days": 86400.0, "h": 3600.0, "min": 60.0}


def size(size_bytes: float) -> str:
    """Format a size in a fitting unit of 1024 bytes and its powers: ``16 MB``, ``1.2 GB``."""
    for shift, unit in ((40, "TB"), (30, "GB"), (20, "MB")):
        if size_bytes >= 1 << shift:
            return f"{figure(size_bytes / (1 << shift))} {unit}"
    return f"{figure(size_bytes / 1024)} kB"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join names, of many the first ones: ``a, b, c and 4 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def megabytes(size_bytes: float) -> str:
    """Format a size in megabytes of 1024² bytes."""
    return f"{figure(size_bytes / (1 << 20))} MB"
