"""Commit flush as the limit, checkpoints and full-page images, a load without stalls."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding

pytestmark = pytest.mark.exam
Findings = Mapping[str, Finding]


@pytest.fixture(scope="module")
def slow_flush(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    settings = {"commit_delay": "2000", "commit_siblings": "0"}
    folder = tmp_path_factory.mktemp("slow-flush")
    return carried_out(folder, script="simple-update", settings=settings)


@pytest.fixture(scope="module")
def tiny_wal(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A checkpoint after every 17 MB of WAL, and more pages than fit between two."""
    settings = {"max_wal_size": "32MB", "min_wal_size": "32MB", "synchronous_commit": "off"}
    return carried_out(tmp_path_factory.mktemp("tiny-wal"), scale=20, settings=settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    settings = {
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_wal_size": "16GB",
        "checkpoint_timeout": "1h",
    }
    folder = tmp_path_factory.mktemp("undisturbed")
    return carried_out(folder, script="simple-update", clients=2, settings=settings)


def test_slow_flush_is_the_limit(slow_flush: Findings) -> None:
    assert slow_flush["commit-flush"].rank == 1, status(slow_flush)


def test_tiny_wal_brings_checkpoints_and_images(tiny_wal: Findings) -> None:
    finding = tiny_wal["checkpoint-fpi"]
    assert finding.status == "found", status(tiny_wal)
    evidence = {item.name: item.value for item in finding.evidence}
    seconds = evidence["time to the next checkpoint at this rate"]
    assert isinstance(seconds, float)
    assert seconds < 60
    share = evidence["full-page images / WAL bytes (estimate)"]
    assert isinstance(share, float)
    assert share > 0.5


def test_undisturbed_load_does_not_stall(undisturbed: Findings) -> None:
    assert undisturbed["stall"].status == "cleared", status(undisturbed)
