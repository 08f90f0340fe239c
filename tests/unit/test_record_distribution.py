"""Percentiles are reported where enough samples lie beyond them, and merge over any parts."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from record_samples import add_second, group_row, new_recorder, script_row

from pgdyno._engine import Histogram
from pgdyno.record import PERCENTILES, Distribution, RunFile
from pgdyno.record._distribution import beyond


def filled(*ns: int) -> Histogram:
    histogram = Histogram()
    for value in ns:
        histogram.record(value)
    return histogram


def test_a_percentile_takes_ten_samples_beyond_it() -> None:
    for count, highest in [
        (19, None),
        (20, 50),
        (100, 90),
        (999, 95),
        (1000, 99),
        (100_000, 99.99),
    ]:
        histogram = Histogram()
        histogram.record(1_000_000, count)
        given_out = [p for p, ns in Distribution.of(histogram).percentiles_ns.items() if ns]
        assert (given_out[-1] if given_out else None) == highest, count


def test_the_maximum_and_the_count_are_always_there() -> None:
    assert Distribution.of(filled(3_000_000)).to_json() == {
        **dict.fromkeys(("p50", "p90", "p95", "p99", "p99.9", "p99.99")),
        "max": 3.015,
        "mean": 3.006,
        "count": 1,
    }
    assert Distribution.of(Histogram()).to_json()["count"] == 0


@given(st.integers(0, 10**7), st.sampled_from(PERCENTILES))
def test_samples_beyond_are_counted_exactly(count: int, p: float) -> None:
    assert beyond(count, p) == count - ceil(count * Fraction(str(p)) / 100)


def test_distributions_merge_over_intervals_groups_and_scripts(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    slow, fast = filled(*[9_000_000] * 30), filled(*[1_000_000] * 30)
    for second in range(2):
        rows = [
            script_row("web", "read", response=fast.encode()),
            script_row("batch", "load", response=slow.encode()),
        ]
        groups = [group_row("web", total=filled(5_000).encode()), group_row("batch")]
        add_second(recorder, second, rows, groups=groups)
    recorder.finish("done")
    with RunFile(recorder.path) as run:
        whole = Distribution.of(run.histogram("response"))
        assert (whole.count, whole.percentiles_ns[99]) == (120, None)
        assert whole.percentiles_ns[50] == fast.percentile(50)
        assert whole.percentiles_ns[90] == slow.percentile(50)
        assert run.histogram("response", group="web").max == fast.max
        assert run.histogram("total").count == 2
