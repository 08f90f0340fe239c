"""PostgreSQL's units: ``16MB``, ``200ms``, ``5min``.

Durations are in milliseconds and sizes in bytes. A number without a unit is an error, except on the
command line, where it means seconds as in pgbench.
"""

from __future__ import annotations

import re

# PostgreSQL's time units (documentation, "Parameter names and values"), in milliseconds.
_TIME_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
# PostgreSQL's memory units: powers of 1024, case as written here.
_SIZE_UNITS_BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*")
_FACTOR = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([x×%]?)\s*")
_FACTOR_MIN, _FACTOR_MAX = 0.001, 1000
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_duration_ms(text: str | int | float, *, bare_unit: str | None = None) -> int:
    """Parse a duration into milliseconds; ``bare_unit`` is the unit of a number without one.

    Raises ``ValueError`` with a message for users.
    """
    return round(_quantity(text, _TIME_UNITS_MS, bare_unit, "a duration", "10s, 200ms or 5min"))


def parse_duration_us(text: str | int | float, *, bare_unit: str | None = None) -> int:
    """Parse a duration into microseconds, like ``parse_duration_ms``."""
    duration_ms = _quantity(text, _TIME_UNITS_MS, bare_unit, "a duration", "50ms or 500us")
    return round(duration_ms * 1000)


def parse_share(text: str | int | float) -> float:
    """Parse ``33%`` or ``0.33`` into a share from 0 to 1. Raises ``ValueError`` with a message for
    users."""
    match = None if isinstance(text, bool) else _SHARE.fullmatch(str(text))
    if match is None or (match[2] == "" and float(match[1]) > 1):
        raise ValueError(f'"{text}" is not a share such as 33%')
    share = float(match[1]) / 100 if match[2] else float(match[1])
    if share > 1:
        raise ValueError(f'"{text}" is more than 100%')
    return share


def parse_factor(text: str) -> float:
    """Parse ``2x``, ``2`` or ``200%`` into a factor. Raises ``ValueError`` with a message for
    users."""
    match = _FACTOR.fullmatch(text)
    factor = float(match[1]) / (100 if match[2] == "%" else 1) if match else 0.0
    if not _FACTOR_MIN <= factor <= _FACTOR_MAX:
        raise ValueError(
            f'"{text}" is not a factor from {_FACTOR_MIN:g} to {_FACTOR_MAX}, such as 2x, 0.5 or'
            " 50%"
        )
    return factor


def parse_size_bytes(text: str | int) -> int:
    """Parse a size into bytes. Raises ``ValueError`` with a message for users."""
    return round(_quantity(text, _SIZE_UNITS_BYTES, None, "a size", "16MB or 2GB"))


def _quantity(
    text: str | int | float,
    units: dict[str, float] | dict[str, int],
    bare_unit: str | None,
    noun: str,
    examples: str,
) -> float:
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f'"{text}" is not {noun} such as {examples}')
    number, unit = match.groups()
    unit = unit or (bare_unit or "")
    if not unit:
        if float(number) == 0:
            return 0.0
        raise ValueError(f'"{text}" needs a unit ({", ".join(units)}), for example {examples}')
    if unit not in units:
        raise ValueError(f'"{text}": "{unit}" is not a unit of {noun[2:]} ({", ".join(units)})')
    return float(number) * units[unit]


def format_duration(duration_ms: float) -> str:
    """Format a duration as PostgreSQL accepts it, in the largest unit that is exact."""
    whole_ms = round(duration_ms)
    for unit in ("h", "min", "s"):
        factor = round(_TIME_UNITS_MS[unit])
        if whole_ms and whole_ms % factor == 0:
            return f"{whole_ms // factor}{unit}"
    return f"{whole_ms}ms"


def format_duration_us(duration_us: int) -> str:
    """Format a duration as PostgreSQL accepts it, in the largest unit that is exact."""
    if duration_us % 1000:
        return f"{duration_us}us"
    return format_duration(duration_us // 1000)


def format_size(size_bytes: int) -> str:
    """Format a size as PostgreSQL accepts it, in the largest unit that is exact."""
    for unit, factor in reversed(_SIZE_UNITS_BYTES.items()):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return "0B"
