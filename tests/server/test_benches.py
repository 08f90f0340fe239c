"""Every benchmark in its smallest form: it runs, counts, and fills the page. No speed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benches import four_days
from benches.__main__ import main
from benches.metrics_cost import metrics_cost
from benches.openloop import lateness_of_log
from benches.sample import BenchError

Bench = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Runs benchmarks with a slice of 0.2 s, one round, scale 1: the results and the page."""

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        results, page = tmp_path / "results.json", tmp_path / "page.md"
        small = ["--profile", "dev", "--scale", "1", "--rounds", "1", "--seconds", "0.2"]
        places = ["--output", str(results), "--page", str(page)]
        assert main([*small, *places, *arguments]) == 0
        return json.loads(results.read_text())["parts"], page.read_text()

    return run


@pytest.mark.long
def test_matrix(bench: Bench) -> None:
    scripts = "select-only,tpcb-like"
    results, page = bench("--only", "matrix", "--clients", "1", "--scripts", scripts)
    names = {row["contender"] for row in results["matrix"]["rows"]}
    assert {"bare epoll", "bare io_uring", "pgdyno", "pgbench -j 1"} <= names
    assert len({(row["script"], row["transport"]) for row in results["matrix"]["rows"]}) == 4
    measured = [row for row in results["matrix"]["rows"] if row["samples"] != [None]]
    for row in measured:
        (sample,) = row["samples"]
        assert all(figure > 0 for figure in sample[:2]), row
        assert sample[2] + sample[3] > 0, row
    # On a busy machine pgbench's start-up, which is subtracted, may take more than a short slice.
    others = [row for row in results["matrix"]["rows"] if row not in measured]
    assert not any(row["contender"].startswith(("bare", "pgdyno")) for row in others)
    assert {row["contender"] for row in measured} == names
    assert "## tpcb-like, TCP" in page


@pytest.mark.long
def test_whole_processes(bench: Bench) -> None:
    results, page = bench("--only", "whole", "--clients", "8", "--rounds", "2")
    rows = {row["contender"]: row["samples"] for row in results["whole"]["rows"]}
    assert {"pgbench -j 1", "pgdyno", "pgdyno engine"} <= rows.keys()
    assert all(len(samples) == 2 and None not in samples for samples in rows.values())
    for (_, _, *whole), (_, _, *engine) in zip(rows["pgdyno"], rows["pgdyno engine"], strict=True):
        assert 0 < sum(engine) < sum(whole), "the engine is a part of the process"
    assert "## Whole processes" in page
    assert "whole process, CPU per transaction / pgbench -j " in page
    assert "start and end alone: pgdyno " in page


@pytest.mark.long
def test_open_loop_and_acks(bench: Bench) -> None:
    results, page = bench("--only", "openloop,acks", "--clients", "2", "--scripts", "tpcb-like")
    contenders = {row["contender"] for row in results["openloop"]["rows"]}
    assert "pgdyno" in contenders
    assert "pgbench -j 1" in contenders
    for row in results["openloop"]["rows"]:
        assert row["done_per_s"] > 0, row
        assert 0 <= row["us_p50"] <= row["us_p99"] <= row["us_max"], row
    assert {row["metric"] for row in results["acks"]["rows"]} == {"throughput_tps", "cpu_us"}
    assert all(row["effect"]["ratio"] > 0 for row in results["acks"]["rows"])
    assert "## Open loop" in page
    assert "throughput with ack ledger / without, tpcb-like, c=2" in page


@pytest.mark.long
def test_connections(bench: Bench) -> None:
    crowd = ["--crowd", "50", "--storm", "4"]
    results, page = bench("--only", "memory,storm", "--clients", "2", *crowd)
    assert [row["use"] for row in results["memory"]["rows"]] == ["idle", "after use"]
    assert all(row["connects_per_s"] > 0 for row in results["memory"]["rows"])
    at_once = results["storm"]["at_once"]
    assert [row["auth"] for row in at_once] == ["trust", "scram"]
    assert all(row[f"{each}_s"] > 0 for row in at_once for each in ("pgdyno", "pgbench"))
    assert all(count > 0 for count in results["storm"]["reconnecting"].values())
    assert "## Connections" in page


@pytest.mark.long
def test_probe_cost(bench: Bench) -> None:
    results, page = bench("--only", "probes", "--clients", "1", "--scripts", "select-only")
    assert all(effect["ratio"] > 0 for effect in results["probes"]["effects"].values())
    assert "throughput with all probes / without, select-only" in page
    least, mean, most = results["probes"]["cpu_shares"]["select-only"]
    assert 0 < least <= mean <= most < 1


def test_a_part_that_is_not_possible_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BenchError("not today")

    monkeypatch.setattr("benches.parts.storm", refuse)
    results, page = bench("--only", "storm", "--clients", "1", "--storm", "1")
    assert results["storm"]["not_measured"] == "not today"
    assert "- storm: not today" in page


def test_lateness_is_read_from_pgbenchs_log() -> None:
    early = [f"0 {n} 900 0 100 {n} 7000" for n in range(10)]
    later = [f"0 {n} 900 0 101 {n * 10_000} {n}" for n in range(100)]
    late = lateness_of_log(early + later)
    assert (late["us_p50"], late["us_p99"], late["us_max"]) == (50, 99, 99)
    assert late["done_per_s"] == pytest.approx(100 / 1.49)
    with pytest.raises(BenchError, match="nothing"):
        lateness_of_log([])


@pytest.mark.long
def test_recording_cost(bench: Bench) -> None:
    options = ["--clients", "2", "--scripts", "tpcb-like"]
    results, page = bench("--only", "recording", *options)
    if "not_measured" in results["recording"]:
        pytest.skip(results["recording"]["not_measured"])
    assert len(results["recording"]["rows"]) == 2
    assert all(row["effect"]["ratio"] > 0 for row in results["recording"]["rows"])
    assert "## Recording disk" in page
    assert "a plain loop mount, tpcb-like, c=2" in page


@pytest.mark.long
def test_metrics_cost() -> None:
    cost = metrics_cost("select-only", pairs=3, slice_s=0.5, clients=1)
    assert cost.throughput.ratio > 0
    lo, added, hi = cost.cpu_ms_per_s
    assert lo <= added <= hi


@pytest.mark.long
def test_a_file_of_simulated_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert four_days.main(["--hours", "0.02"]) == 0
    assert "72 intervals: " in capsys.readouterr().out
