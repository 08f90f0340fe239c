"""Client pool limit, client-limited, too many connections, saturated CPU: injected, and not.

The null control of one is another's positive control where that injects nothing of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding, verdict

pytestmark = pytest.mark.exam
Findings = Mapping[str, Finding]


@pytest.fixture(scope="module")
def waiting_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions that hold a connection and need no core."""
    path = tmp_path_factory.mktemp("scripts") / "waiting.sql"
    path.write_text("select pg_sleep(0.005);\n")
    return path


@pytest.fixture(scope="module")
def computing_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions whose work is done by the client."""
    path = tmp_path_factory.mktemp("scripts") / "computing.sql"
    lines = [
        rf"\set x{n} permute(random(1, 1000000), 1000000, {n}) + random_zipfian(1, 100000, 1.5)"
        for n in range(400)
    ]
    path.write_text("\n".join([*lines, "select 1;\n"]))
    return path


@pytest.fixture(scope="module")
def small_pool(tmp_path_factory: pytest.TempPathFactory, waiting_script: Path) -> Findings:
    folder = tmp_path_factory.mktemp("small-pool")
    return carried_out(folder, script=waiting_script, clients=16, pool=2)


@pytest.fixture(scope="module")
def roomy_pool(tmp_path_factory: pytest.TempPathFactory, waiting_script: Path) -> Findings:
    folder = tmp_path_factory.mktemp("roomy-pool")
    return carried_out(folder, script=waiting_script, clients=4, pool=4)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("crowd")
    return carried_out(
        folder, script="select-only", clients=64, settings={"synchronous_commit": "off"}
    )


@pytest.fixture(scope="module")
def computing(tmp_path_factory: pytest.TempPathFactory, computing_script: Path) -> Findings:
    return carried_out(tmp_path_factory.mktemp("computing"), script=computing_script, clients=4)


def test_small_pool_is_the_limit(small_pool: Findings) -> None:
    assert small_pool["client-pool"].rank == 1, status(small_pool)


def test_crowd_competes_for_the_cores(crowd: Findings) -> None:
    finding = crowd["connections"]
    assert finding.status == "found", status(crowd)
    assert finding.proposals
    assert all(p.change.pool_max["web"] < 64 for p in finding.proposals if p.change.pool_max)


def test_sleeping_sessions_compete_for_nothing(small_pool: Findings, roomy_pool: Findings) -> None:
    for findings in (small_pool, roomy_pool):
        assert findings["connections"].status == "cleared", status(findings)


def test_crowd_saturates_the_server_s_cores(crowd: Findings) -> None:
    assert crowd["server-cpu"].status == "found", status(crowd)
    assert "connections" in crowd["server-cpu"].causes


def test_sleeping_sessions_saturate_nothing(small_pool: Findings, roomy_pool: Findings) -> None:
    for findings in (small_pool, roomy_pool):
        assert findings["server-cpu"].status == "cleared", status(findings)


def test_computing_clients_are_the_limit(computing: Findings) -> None:
    assert computing["client-limited"].rank == 1, status(computing)
    assert verdict(computing.values())["finding"] == "client-limited"


def test_generator_beside_a_busy_server_is_not(small_pool: Findings, crowd: Findings) -> None:
    for findings in (small_pool, crowd):
        assert findings["client-limited"].status == "cleared", status(findings)


def test_reading_alone_is_no_write_bottleneck(crowd: Findings) -> None:
    for name in ("commit-flush", "checkpoint-fpi", "hot-row", "stall"):
        assert crowd[name].status == "cleared", status(crowd)
