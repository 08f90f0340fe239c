"""Every benchmark in its smallest form: it runs, counts, and fills the page. No speed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benches/ is no part of the package

from benches.__main__ import main  # noqa: E402

Bench = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Runs benchmarks with a slice of 0.2 s, one round, scale 1: the results and the page."""

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        results, page = tmp_path / "results.json", tmp_path / "page.md"
        small = ["--profile", "dev", "--scale", "1", "--rounds", "1", "--seconds", "0.2"]
        places = ["--output", str(results), "--page", str(page)]
        assert main([*small, *places, *arguments]) == 0
        return json.loads(results.read_text()), page.read_text()

    return run


def test_matrix(bench: Bench) -> None:
    scripts = "select-only,tpcb-like"
    results, page = bench("--only", "matrix", "--clients", "1", "--scripts", scripts)
    names = {row["contender"] for row in results["matrix"]}
    assert {"bare epoll", "bare io_uring", "pgdyno", "pgbench -j 1"} <= names
    assert len({(row["script"], row["transport"]) for row in results["matrix"]}) == 4
    for row in results["matrix"]:
        (sample,) = row["samples"]
        assert all(figure > 0 for figure in sample[:2]), row
        assert sample[2] + sample[3] > 0, row
    assert "## tpcb-like, TCP" in page
