"""Forecast of when a disk will be full: WAL is recycled, data is not.

A server's ``pg_wal`` grows until a checkpoint releases segments, which are then recycled: growth up
to about ``max_wal_size`` is no trend. It is a problem only if the disk is smaller than that, or if
the WAL is larger because something retains it (a slot, a failing archiver, ``wal_keep_size``).
PostgreSQL begins a checkpoint after max_wal_size / (1 + checkpoint_completion_target) of WAL, or at
checkpoint_timeout, and ``max_wal_size`` is a soft limit (its documentation, "WAL configuration");
hence the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pgdyno.numbers import duration, size

_MARGIN = 0.125
_MARGIN_BYTES = 32 << 20
_KEPT_FACTOR = 1.25
_KEPT_BYTES = 64 << 20
_GROWTH_BYTES_S_MIN = 64 << 10

Cause = Literal["max_wal_size", "kept", "growth"]


class Space(Struct, frozen=True):
    """A file system with data, WAL or both, at the end of a period."""

    size_bytes: float
    free_bytes: float
    data_growth_bytes_s: float
    """Of all files on it but the WAL; see :func:`growths`."""
    wal_dir_bytes: float | None = None
    """Size of the WAL; ``None`` if it is on another file system, or cannot be read."""
    wal_growth_bytes_s: float = 0.0
    """Of ``wal_dir_bytes``."""
    wal_bytes_s: float = 0.0
    """WAL written, into new segments or recycled ones."""
    wal_wanted_bytes: float | None = None
    """Space that the WAL may need; see :func:`wal_wanted`."""


class Filling(Struct, frozen=True):
    """A file system that will be full if the trend continues."""

    seconds: float
    why: Cause


def disk_name(holds: str, filesystem: str = "") -> str:
    """Return the name of a disk that ``holds`` data and WAL: ``the disk of the WAL (ext4)``."""
    return f"the disk of the {contents_name(holds)}" + (f" ({filesystem})" if filesystem else "")


def contents_name(holds: str) -> str:
    """Return the contents of a disk in words: ``data and WAL``."""
    return " and ".join("WAL" if each == "wal" else each for each in holds.split(","))


def full_soon(disk: str, seconds: float) -> str:
    """Return the clause for a disk that will be full, by its name."""
    return f"{disk} will be full in about {duration(seconds)} at this rate"


def wal_beyond_disk(space_bytes: float, max_wal_size: str) -> str:
    """Return the sentence for a WAL that may become larger than the space for it."""
    return (
        f"the WAL has {size(space_bytes)} of disk space, and may grow beyond"
        f" max_wal_size = {max_wal_size} before a checkpoint removes any of it"
    )


def wal_wanted(
    max_wal_size_bytes: float,
    *,
    bytes_s: float | None = None,
    timeout_s: float | None = None,
    completion_target: float | None = None,
) -> float:
    """Return the bytes that the WAL may need, with a margin.

    Less than max_wal_size if at ``bytes_s`` the timeout triggers checkpoints earlier.
    """
    wanted = max_wal_size_bytes
    if bytes_s is not None and timeout_s is not None and completion_target is not None:
        wanted = min(wanted, bytes_s * timeout_s * (1.0 + completion_target))
    return wanted * (1.0 + _MARGIN) + _MARGIN_BYTES


def steady_growth(times_s: Sequence[float], used: Sequence[float]) -> float:
    """Return the growth of ``used`` per second: the smaller rate of the two halves of the time.

    0 if it grew in one half only, or if there are fewer than four values.
    """
    if len(used) < 4:
        return 0.0
    middle = len(used) // 2
    rates = []
    for first, last in ((0, middle), (middle, len(used) - 1)):
        seconds = times_s[last] - times_s[first]
        rates.append((used[last] - used[first]) / seconds if seconds > 0 else 0.0)
    return max(0.0, min(rates))


def growths(
    times_s: Sequence[float], used: Sequence[float], wal: Sequence[float] | None
) -> tuple[float, float]:
    """Return the growth per second of what is ``used`` without the ``wal``, and that of the WAL.

    They are read one after the other, and the WAL grows by whole segments: what one of them shows
    and the other not yet is no growth in both halves of the time.
    """
    if wal is None:
        return steady_growth(times_s, used), 0.0
    data = [each - of_wal for each, of_wal in zip(used, wal, strict=True)]
    return steady_growth(times_s, data), steady_growth(times_s, wal)


def forecast(space: Space, max_wal_size_bytes: float | None) -> Filling | None:
    """Return when the file system will be full; ``None`` if no trend fills it."""
    found = [
        *_too_small_for_wal(space),
        *_wal_kept(space, max_wal_size_bytes),
        *_growing(space),
    ]
    return min(found, key=lambda filling: filling.seconds, default=None)


def _too_small_for_wal(space: Space) -> list[Filling]:
    if space.wal_dir_bytes is None or space.wal_wanted_bytes is None or space.wal_bytes_s <= 0:
        return []
    if space.free_bytes + space.wal_dir_bytes >= space.wal_wanted_bytes:
        return []
    return [Filling(space.free_bytes / space.wal_bytes_s, "max_wal_size")]


def _wal_kept(space: Space, max_wal_size_bytes: float | None) -> list[Filling]:
    if space.wal_dir_bytes is None or max_wal_size_bytes is None:
        return []
    usual = max_wal_size_bytes * _KEPT_FACTOR + _KEPT_BYTES
    if space.wal_dir_bytes < usual or space.wal_growth_bytes_s < _GROWTH_BYTES_S_MIN:
        return []
    return [Filling(space.free_bytes / space.wal_growth_bytes_s, "kept")]


def _growing(space: Space) -> list[Filling]:
    growth = space.data_growth_bytes_s
    if growth < _GROWTH_BYTES_S_MIN:
        return []
    reserved = 0.0
    if space.wal_dir_bytes is not None and space.wal_wanted_bytes is not None:
        reserved = max(0.0, space.wal_wanted_bytes - space.wal_dir_bytes)
    # The WAL may use the space reserved for it, but not before it has grown.
    seconds = max(
        (space.free_bytes - reserved) / growth,
        space.free_bytes / (growth + space.wal_growth_bytes_s),
    )
    return [Filling(seconds, "growth")]
