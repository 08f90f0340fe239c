"""Forecast of a full disk: growth that is real, and WAL that is recycled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.stats.filling import Filling, Space, forecast, growths, steady_growth, wal_wanted

MB = 1 << 20
GB = 1 << 30


@pytest.mark.parametrize(
    ("used", "growth"),
    [
        ([0, 10, 20, 30, 40], 10.0),
        ([0, 40, 40, 40, 40], 0.0),
        ([40, 30, 20, 10, 0], 0.0),
        ([0, 16, 16, 32, 32], 8.0),
        ([0, 10, 20], 0.0),
        ([], 0.0),
    ],
)
def test_growth_is_in_both_halves(used: list[float], growth: float) -> None:
    assert steady_growth([float(at) for at in range(len(used))], used) == growth


@given(st.lists(st.floats(0, 1e12), max_size=50))
def test_growth_is_never_more_than_what_was_added(used: list[float]) -> None:
    growth = steady_growth([float(at) for at in range(len(used))], used)
    assert growth >= 0
    if growth:
        assert growth * (len(used) - 1) <= (used[-1] - used[0]) * (1 + 1e-9) + 1e-6


def test_a_segment_that_one_reading_shows_first_is_no_data() -> None:
    """Free space falls by a segment before the WAL's size shows it, 5 MB of WAL are written each
    second, and a table grows by 1 MB per second or not."""
    segment = 16 * MB
    for data in (0, 1):
        used = [2 * segment + data * MB * s + segment * (s // 3) for s in range(10)]
        wal = [2 * segment + segment * (max(0, s - 1) // 3) for s in range(10)]
        grown, of_wal = growths([float(s) for s in range(10)], used, wal)
        assert grown == data * MB
        assert of_wal > 0
    assert growths([0.0, 1.0, 2.0, 3.0], [0, 1, 2, 3], None) == (1.0, 0.0)


def test_wanted_room_is_bounded_by_what_is_written_between_timed_checkpoints() -> None:
    assert wal_wanted(GB) == 1.125 * GB + 32 * MB
    pace = {"timeout_s": 300.0, "completion_target": 0.9}
    assert wal_wanted(GB, bytes_s=0.0, **pace) == 32 * MB
    assert wal_wanted(GB, bytes_s=100.0 * MB, **pace) == wal_wanted(GB)


def test_the_soonest_end_counts() -> None:
    space = Space(
        size_bytes=GB,
        free_bytes=100 * MB,
        data_growth_bytes_s=10 * MB,
        wal_dir_bytes=100 * MB,
        wal_growth_bytes_s=10 * MB,
        wal_bytes_s=20 * MB,
        wal_wanted_bytes=wal_wanted(GB),
    )
    assert forecast(space, GB) == Filling(5.0, "max_wal_size")
    # Data and WAL fill the disk together,
    assert forecast(replace(space, data_growth_bytes_s=15 * MB), GB) == Filling(4.0, "growth")
    # but the WAL only until it has what it wants.
    roomy = replace(
        space, free_bytes=wal_wanted(GB), data_growth_bytes_s=1 * MB, wal_growth_bytes_s=100 * MB
    )
    assert forecast(roomy, GB) == Filling(100.0, "growth")
    assert forecast(replace(space, data_growth_bytes_s=0.0), GB) == Filling(5.0, "max_wal_size")
    assert forecast(replace(space, data_growth_bytes_s=0.0, wal_bytes_s=0.0), GB) is None
