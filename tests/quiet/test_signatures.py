"""Signatures on real servers, bottlenecks injected and not, so that any machine shows them.

Sleep, flushes that are made slow and locks take the same time on one busy core as on many idle
ones. What depends on the machine's speed is asked in tests/exam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding

pytestmark = pytest.mark.server
Findings = Mapping[str, Finding]

# Every flush is made to take so much more that neither the disk nor the machine matters.
SLOW_FLUSH = {"commit_delay": "100000", "commit_siblings": "0"}
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


@pytest.fixture(scope="module")
def waiting_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions that hold a connection and need no core."""
    path = tmp_path_factory.mktemp("scripts") / "waiting.sql"
    path.write_text("select pg_sleep(0.05);\n")
    return path


@pytest.fixture
def small_pool(once: Callable[..., Findings], waiting_script: Path) -> Findings:
    return once("small-pool", 18, script=waiting_script, clients=16, pool=2)


@pytest.fixture
def roomy_pool(once: Callable[..., Findings], waiting_script: Path) -> Findings:
    return once("roomy-pool", 18, script=waiting_script, clients=4, pool=4)


@pytest.fixture(params=[18, 15])
def slow_flush(request: pytest.FixtureRequest, once: Callable[..., Findings]) -> Findings:
    return once("slow-flush", request.param, script="simple-update", settings=SLOW_FLUSH)


@pytest.fixture(params=[18, 15])
def hot_row(request: pytest.FixtureRequest, once: Callable[..., Findings]) -> Findings:
    """Sixteen clients, one branch, held through a slow flush."""
    return once("hot-row", request.param, clients=16, settings=SLOW_FLUSH)


@pytest.fixture
def free_commits(once: Callable[..., Findings]) -> Findings:
    return once("free-commits", 18, script="simple-update", clients=2, settings=FREE)


@pytest.fixture
def locked_out(once: Callable[..., Findings]) -> Findings:
    return once(
        "locked-out",
        18,
        script="simple-update",
        hold="9s",
        clients=4,
        settings=FREE,
        events=[{"at": "4s", "sql": LOCK_FOR_TWO_SECONDS}],
    )


def test_a_small_pool_is_found(small_pool: Findings) -> None:
    finding = small_pool["client-pool"]
    assert finding.status == "found", status(small_pool)
    assert 0.7 < finding.share < 0.95  # 14 of 16 clients wait
    idle = next(item.value for item in finding.evidence if item.name == "host CPU idle")
    if idle > 0.3:  # on cores that others keep busy nothing is predicted
        best = finding.proposals[0]
        assert best.change.pool_max == {"web": 16}
        assert best.predicted_ratio > 4


def test_a_roomy_pool_is_not(roomy_pool: Findings) -> None:
    assert roomy_pool["client-pool"].status == "cleared", status(roomy_pool)


def test_a_delay_before_each_flush_is_found(slow_flush: Findings) -> None:
    finding = slow_flush["commit-delay"]
    assert finding.status == "found", status(slow_flush)
    assert finding.sentence.startswith("commit_delay holds each commit back by 100 ms")
    assert finding.share > 0.4
    (reset,) = finding.proposals
    assert reset.change.settings == {"commit_delay": "0"}
    assert reset.predicted_ratio > 1.5


def test_the_flush_itself_is_told_from_the_delay(slow_flush: Findings) -> None:
    finding = slow_flush["commit-flush"]
    assert finding.status == "found", status(slow_flush)
    off = [p for p in finding.proposals if p.remedy_id == "synchronous-commit-off"]
    assert off[0].predicted_ratio > 1.5


def test_commits_that_do_not_wait_are_not(free_commits: Findings) -> None:
    assert free_commits["commit-flush"].status == "cleared", status(free_commits)


def test_one_branch_is_a_hot_row(hot_row: Findings) -> None:
    finding = hot_row["hot-row"]
    assert finding.status == "found", status(hot_row)
    evidence = {item.name: str(item.value) for item in finding.evidence}
    assert evidence["waiting statement"].startswith("update pgbench_")
    assert finding.share > 0.4
    # Mostly the branch; on a busy machine few samplings may all show the queue for a teller.
    assert re.search(r"in pgbench_(branches|tellers) for 16 clients: -s \d+", finding.sentence)


def test_spread_updates_are_not(slow_flush: Findings, free_commits: Findings) -> None:
    for findings in (slow_flush, free_commits):
        assert findings["hot-row"].status == "cleared", status(findings)


def test_no_images_far_from_a_checkpoint(free_commits: Findings) -> None:
    assert free_commits["checkpoint-fpi"].status == "cleared", status(free_commits)


def test_a_lock_stalls_the_load_and_is_named(locked_out: Findings) -> None:
    finding = locked_out["stall"]
    assert finding.status == "found", status(locked_out)
    assert any("pgbench_accounts" in item.name for item in finding.evidence), finding.evidence
    assert finding.share > 0.1
