"""What the benchmarks make of samples: ratios in pairs, the best of a family, asked and met."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.__main__ import PAGE
from benches.compare import best, ratio, typical
from benches.matrix import Matrix, run_matrix
from benches.page import page
from benches.required import Figure, required_of_matrix
from benches.results import RESULTS, matrix_from, matrix_json, write_part
from benches.sample import BenchError, Case, Sample, plausible

CASE = Case("select-only", 64, "unix")


def sample(tps: float, cpu_us: float) -> Sample:
    return Sample(int(tps), 1.0, cpu_us * tps * 0.5e-6, cpu_us * tps * 0.5e-6)


class Fixed:
    """A contender whose slices are known beforehand; None is a slice that fails."""

    def __init__(self, name: str, *samples: Sample | None) -> None:
        self.name = name
        self.lengths: list[float] = []
        self._samples = list(samples)

    def measure(self, case: Case, seconds: float) -> Sample:
        self.lengths.append(seconds)
        if (known := self._samples.pop(0)) is None:
            raise BenchError("fell over")
        return known


def measured(*contenders: Fixed, rounds: int, case: Case = CASE) -> Matrix:
    matrix = Matrix()
    run_matrix(
        matrix,
        [case],
        lambda _: contenders,
        rounds=rounds,
        seconds=1.0,
        until_s=float("inf"),
        before_case=lambda: None,
        say=lambda _: None,
    )
    return matrix


def test_a_ratio_pairs_the_rounds_in_which_both_have_a_slice() -> None:
    ours = Fixed("pgdyno", sample(200, 2), sample(1000, 9), sample(400, 4))
    theirs = Fixed("pgbench -j 1", sample(100, 4), None, sample(200, 8))
    matrix = measured(ours, theirs, rounds=3)
    effect = ratio(matrix, CASE, "throughput", "pgbench -j 1").effect
    assert effect is not None
    assert (effect.ratio, effect.pairs) == (pytest.approx(2.0), 2)
    effect = ratio(matrix, CASE, "cpu", "pgbench -j 1").effect
    assert effect is not None
    assert effect.ratio == pytest.approx(0.5)


def test_one_pair_is_no_ratio() -> None:
    matrix = measured(
        Fixed("pgdyno", sample(200, 2)), Fixed("pgbench -j 1", sample(100, 4)), rounds=1
    )
    assert ratio(matrix, CASE, "cpu", "pgbench -j 1").effect is None
    assert typical(matrix, CASE, "pgdyno", "cpu") == pytest.approx(2.0)


def test_the_best_of_a_family_is_so_for_each_figure() -> None:
    frugal = Fixed("pgbench -j 1", sample(100, 4))
    quick = Fixed("pgbench -j 2", sample(200, 8))
    matrix = measured(frugal, quick, rounds=1)
    assert best(matrix, CASE, "pgbench", "cpu") == "pgbench -j 1"
    assert best(matrix, CASE, "pgbench", "throughput") == "pgbench -j 2"
    assert best(matrix, CASE, "sysbench", "cpu") is None


def test_many_clients_get_longer_slices() -> None:
    few, many = Fixed("pgdyno", sample(1, 1)), Fixed("pgdyno", sample(1, 1))
    measured(few, rounds=1)
    measured(many, rounds=1, case=Case("select-only", 1000, "unix"))
    assert (few.lengths, many.lengths) == ([1.0], [4.0])


def test_rounds_end_with_the_time_but_for_the_first() -> None:
    contender = Fixed("pgdyno", *[sample(1, 1)] * 3)
    matrix = Matrix()
    run_matrix(
        matrix,
        [CASE],
        lambda _: [contender],
        rounds=3,
        seconds=1.0,
        until_s=0.0,
        before_case=lambda: None,
        say=lambda _: None,
    )
    assert len(matrix.rows[0].samples) == 1


def test_what_is_asked_is_met_when_the_whole_interval_says_so() -> None:
    def met(lo: float, hi: float, *, at_most: bool) -> str:
        return Figure("it", 1.0, at_most, lo, (lo + hi) / 2, hi, 6).met

    assert met(0.8, 0.9, at_most=True) == "yes"
    assert met(0.8, 1.1, at_most=True) == "unclear"
    assert met(1.1, 1.2, at_most=True) == "no"
    assert met(1.1, 1.2, at_most=False) == "yes"
    assert met(0.9, 1.2, at_most=False) == "unclear"
    assert met(0.8, 0.9, at_most=False) == "no"


def test_nothing_is_reckoned_from_a_slice_shorter_than_its_start_up() -> None:
    with pytest.raises(BenchError, match="too short"):
        plausible(sample(100, 4).minus(sample(200, 4)), "pgbench")


def test_results_go_to_disk_and_back_and_make_the_page(tmp_path: Path) -> None:
    ours = Fixed("pgdyno", *[sample(200 + n, 2) for n in range(6)])
    theirs = Fixed("pgbench -j 1", *[sample(100, 8), None, *[sample(100, 8) for _ in range(4)]])
    matrix = measured(ours, theirs, rounds=6)
    rows = matrix_json(matrix)
    assert matrix_json(matrix_from(rows)) == rows
    facts = {"cores": 2, "processor": "P", "memory_gib": 1, "kernel": "6", "postgresql": "18.6",
             "sysbench": None, "pgdyno": "0", "settings": {"fsync": "off"}}  # fmt: skip
    about = {"date": "2026-01-01", "command": "python -m benches"}
    results = tmp_path / "results.json"
    write_part(results, facts, "matrix", {**about, "missing": {"sysbench": "none"}, "rows": rows})
    write_part(results, facts, "storm", {**about, "not_measured": "rain"})
    text = page(results)
    assert (
        "| CPU per transaction / pgbench -j 1, c=64 | ≤ 0.55 | 0.25 | 0.25 to 0.25 | 5 | yes |"
        in text
    )
    assert "# 2026-01-01: matrix, storm" in text
    assert "- sysbench: none\n- storm: rain" in text
    assert [one.met for one in required_of_matrix(matrix)] == ["yes", "yes", "yes"]


@pytest.mark.skipif(not RESULTS.exists(), reason="make bench has not been run")
def test_the_published_page_is_fresh() -> None:
    assert PAGE.read_text() == page(RESULTS), "run make bench"
