"""Commit flush, checkpoints and full-page images, hot rows, stalls: injected, and not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding

pytestmark = [pytest.mark.server, pytest.mark.alone]
Findings = Mapping[str, Finding]

# Every flush is made to take two milliseconds more, whatever the disk.
SLOW_FLUSH = {"commit_delay": "2000", "commit_siblings": "0"}
FREE = {
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}
LOCK_FOR_TWO_SECONDS = (
    "begin; lock table pgbench_accounts in access exclusive mode; select pg_sleep(2.5); commit"
)


@pytest.fixture(scope="module")
def once(
    tmp_path_factory: pytest.TempPathFactory, installation_of: Callable[[int], object]
) -> Callable[..., Findings]:
    """Carries each load out once per version, however many tests look at it."""
    made: dict[str, Findings] = {}

    def carry(name: str, version: int, **load: Any) -> Findings:
        installation_of(version)  # skips the test where this machine has none
        key = f"{name}-{version}"
        if key not in made:
            made[key] = carried_out(tmp_path_factory.mktemp(key), version=version, **load)
        return made[key]

    return carry


@pytest.fixture(params=[18, 15])
def slow_flush(request: pytest.FixtureRequest, once: Callable[..., Findings]) -> Findings:
    return once("slow-flush", request.param, script="simple-update", settings=SLOW_FLUSH)


@pytest.fixture(params=[18, 15])
def hot_row(request: pytest.FixtureRequest, once: Callable[..., Findings]) -> Findings:
    """Sixteen clients, one branch, held through a slow flush."""
    return once("hot-row", request.param, clients=16, settings=SLOW_FLUSH)


@pytest.fixture(scope="module")
def free_commits(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("free-commits")
    return carried_out(folder, script="simple-update", clients=2, settings=FREE)


@pytest.fixture(scope="module")
def tiny_wal(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A checkpoint after every 17 MB of WAL, and more pages than fit between two."""
    settings = {"max_wal_size": "32MB", "min_wal_size": "32MB", "synchronous_commit": "off"}
    return carried_out(tmp_path_factory.mktemp("tiny-wal"), scale=20, settings=settings)


@pytest.fixture(scope="module")
def locked_out(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return carried_out(
        tmp_path_factory.mktemp("locked-out"),
        script="simple-update",
        hold="9s",
        clients=4,
        settings=FREE,
        events=[{"at": "4s", "sql": LOCK_FOR_TWO_SECONDS}],
    )


def test_slow_flush_is_the_limit(slow_flush: Findings) -> None:
    finding = slow_flush["commit-flush"]
    assert finding.rank == 1, status(slow_flush)
    assert finding.share > 0.4
    best = finding.proposals[0]
    assert best.remedy_id == "synchronous-commit-off"
    assert best.predicted_ratio > 1.5


def test_commits_that_do_not_wait_are_not(free_commits: Findings) -> None:
    assert free_commits["commit-flush"].status == "cleared", status(free_commits)


def test_one_branch_is_a_hot_row(hot_row: Findings) -> None:
    finding = hot_row["hot-row"]
    assert finding.status == "found", status(hot_row)
    evidence = {item.name: str(item.value) for item in finding.evidence}
    assert evidence["waiting statement"].startswith("update pgbench_")
    assert finding.share > 0.4


def test_spread_updates_are_not(slow_flush: Findings, free_commits: Findings) -> None:
    for findings in (slow_flush, free_commits):
        assert findings["hot-row"].status == "cleared", status(findings)


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


def test_no_images_far_from_a_checkpoint(free_commits: Findings) -> None:
    finding = free_commits["checkpoint-fpi"]
    assert finding.status == "cleared", status(free_commits)


def test_lock_stalls_the_load_and_is_named(locked_out: Findings) -> None:
    finding = locked_out["stall"]
    assert finding.status == "found", status(locked_out)
    assert "sessions waited for a lock" in finding.sentence
    assert any("pgbench_accounts" in item.name for item in finding.evidence), finding.evidence
    assert finding.share > 0.1


def test_undisturbed_load_does_not_stall(free_commits: Findings) -> None:
    assert free_commits["stall"].status == "cleared", status(free_commits)
