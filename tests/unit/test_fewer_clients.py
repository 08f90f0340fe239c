"""Fewer clients as a remedy: where most of them wait for each other, and only there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diagnose_runs import CPU, ROW, Load, diagnosed
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.investigate._proposals import AssessedProposal, assessed_proposals
from pgdyno.investigate._trials import decision_of, proof_of, recheck_decision_of
from pgdyno.record.finding import Finding, Proposal
from pgdyno.rules._client_counts import ratio_of_fewer
from pgdyno.spec import Change, spec_from_fields
from pgdyno.stats import PairedEffect
from pgdyno.trial.pairs import Matters

MAPPING = ("LWLock", "BufferMapping")
READ = ("IO", "DataFileRead")
MB = 1 << 20
HALF = Change(clients={"web": 8})

# Sixteen sessions on eight cores that are not all busy; most wait for the table of buffers.
QUEUE = Load(
    clients=16,
    cores=8,
    tps=4000,
    service_ms=4.0,
    sessions={CPU: 1.5, MAPPING: 14.0},
    busy=0.2,
)
READING = Load(
    clients=16,
    tps=1000,
    service_ms=16,
    sessions={CPU: 0.5, READ: 15.0},
    busy=0.2,
    settings={"shared_buffers": "128MB"},
    server_facts={"database_bytes": 300 * MB},
    counters={
        "metric_database": [{"blks_read": 1500, "blks_hit": 4500, "blk_read_time_ms": 15_000.0}],
    },
)


def on_device(busy: float, in_flight: float, holds: str = "data,wal") -> Load:
    """The same reads from a device that is so busy."""
    disk = {"device": "sda", "holds": holds, "busy_ms": 1000 * busy, "queue_ms": 1000 * in_flight}
    return replace(READING, counters={**READING.counters, "metric_disk": [disk]})


def fewer(findings: dict[str, Finding], finding: str) -> list[Proposal]:
    """Return the proposals of other numbers of clients of a finding."""
    return [each for each in findings[finding].proposals if each.remedy_id == "client-count"]


def test_sessions_that_wait_in_one_queue_are_not_missed() -> None:
    """768, 384 and 192 sessions did the same work within 5 %, while their waits went away."""
    assert ratio_of_fewer(768, 576, 384) == pytest.approx(1.0, abs=0.001)
    assert ratio_of_fewer(768, 576, 192) == pytest.approx(0.95, abs=0.01)
    assert ratio_of_fewer(192, 10, 96) < 0.6


@given(st.floats(1, 300), st.floats(0, 1), st.floats(0, 1))
def test_fewer_sessions_do_no_more_and_at_least_their_part(
    sessions: float, waiting: float, part: float
) -> None:
    fewer_sessions = max(1.0, part * sessions)
    ratio = ratio_of_fewer(sessions, waiting * sessions, fewer_sessions)
    assert 0.99 * fewer_sessions / sessions <= ratio <= 1.0


def test_half_of_the_clients_are_proposed_where_most_wait_for_one_lock(tmp_path: Path) -> None:
    (proposal,) = fewer(diagnosed(tmp_path, QUEUE), "buffer-mapping")
    assert proposal.change == HALF
    assert proposal.predicted_ratio == pytest.approx(1.0, abs=0.03)
    assert proposal.predicted_response_ratio == pytest.approx(0.5 / proposal.predicted_ratio)
    assert proposal.why == snapshot(
        "14 of 16 sessions wait for the table of buffers, so that 8 of 16 clients are predicted"
        " 1.00x the throughput (0.98x if waits only shrink with their number) and, as response"
        " time is clients / throughput (Little's law), 0.50x the response time"
    )
    assert not proposal.specific


@pytest.mark.parametrize(
    "other",
    [
        {"sessions": {CPU: 12.0, MAPPING: 3.5}, "cores": 16, "busy": 0.8},  # most are at work
        {"rate": 4000.0},
        {"think": "4ms", "clients": 32},  # half of the clients rest
    ],
)
def test_clients_that_are_needed_stay(tmp_path: Path, other: dict[str, Any]) -> None:
    findings = diagnosed(tmp_path, replace(QUEUE, **other))
    assert findings["buffer-mapping"].status == "found"
    assert not fewer(findings, "buffer-mapping")


def test_for_clients_that_share_a_pool_a_smaller_one_is_advice(tmp_path: Path) -> None:
    pooled = replace(QUEUE, clients=32, pool=16, pool_wait_ms=4.0)
    findings = diagnosed(tmp_path, pooled)
    assert not fewer(findings, "buffer-mapping")
    assert findings["buffer-mapping"].advice == snapshot(
        "keep the working set in shared_buffers, or let fewer sessions read at once; 8 pooled"
        " connections instead of 16 are predicted 1.00x the throughput; clients then wait for a"
        " connection instead"
    )
    assert "pooled" not in diagnosed(tmp_path, QUEUE)["buffer-mapping"].advice


def test_a_device_at_its_limit_gains_nothing_by_more_clients(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, on_device(1.0, 15.0))
    (proposal,) = fewer(findings, "data-reads")
    assert proposal.change == HALF
    assert proposal.predicted_response_ratio == pytest.approx(0.5, abs=0.02)
    assert proposal.why == snapshot(
        "15 of 16 sessions wait for sda, if that is at its limit, so that 8 of 16 clients are"
        " predicted 1.00x the throughput (0.50x if waits only shrink with their number) and, as"
        " response time is clients / throughput (Little's law), 0.50x the response time"
    )
    values = {each.name: each.value for each in findings["data-reads"].evidence}
    assert values["requests at sda"] == pytest.approx(15.0)


@pytest.mark.parametrize("load", [on_device(0.6, 15.0), on_device(1.0, 1.1), READING])
def test_a_device_that_can_do_more_needs_its_clients(tmp_path: Path, load: Load) -> None:
    findings = diagnosed(tmp_path, load)
    assert findings["data-reads"].status == "found"
    assert not fewer(findings, "data-reads")


def test_a_device_without_data_says_nothing(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, on_device(1.0, 15.0, holds="wal"))
    assert not fewer(findings, "data-reads")


def test_sessions_that_queue_for_a_row_are_too_many(tmp_path: Path) -> None:
    crowd = Load(
        clients=16, tps=700, service_ms=22.0, sessions={CPU: 0.5, ROW: 15.0}, busy=0.2, queues=[{}]
    )
    (proposal,) = fewer(diagnosed(tmp_path, crowd), "hot-row")
    assert proposal.change == HALF


def test_sessions_that_queue_for_cores_are_advice(tmp_path: Path) -> None:
    crowd = Load(clients=16, tps=8000, service_ms=2.0, sessions={CPU: 15.0}, busy=1.0, queued=17.0)
    findings = diagnosed(tmp_path, crowd)
    assert findings["server-cpu"].advice == snapshot(
        "8 of 16 clients are predicted 1.03x the throughput (0.99x if waits only shrink with"
        " their number) and, as response time is clients / throughput (Little's law), 0.49x the"
        " response time"
    )
    assert not fewer(findings, "server-cpu")
    enough = replace(crowd, clients=2, service_ms=0.25, sessions={CPU: 1.9}, queued=3.0)
    assert not diagnosed(tmp_path, enough)["server-cpu"].advice


def assessed(throughput: float, response: float | None) -> list[AssessedProposal]:
    """Return the proposal as an investigation would try it; [] if it would not."""
    made = Proposal(
        remedy_id="client-count",
        change=HALF,
        predicted_ratio=throughput,
        why="",
        predicted_response_ratio=response,
    )
    finding = Finding(id="buffer-mapping", status="found", sentence="", proposals=(made,))
    spec = spec_from_fields({"clients": [{"name": "web", "count": 16}]})
    return assessed_proposals([finding], Change(), spec)


def measured(throughput: tuple[float, float, float], p99: tuple[float, float, float]) -> Any:
    """An answer with these intervals: low, ratio, high."""
    outcome = "worse" if throughput[2] < 0.97 else "no difference"
    effects = [PairedEffect(ratio, lo, hi, 6, 0.1) for lo, ratio, hi in (throughput, p99)]
    return SimpleNamespace(
        throughput=effects[0],
        latency_p99=effects[1],
        measure="throughput",
        verdict=SimpleNamespace(outcome=outcome),
        matters=Matters(),
        p99_is_shorter=effects[1].hi < 1,
    )


def test_a_shorter_response_at_the_same_throughput_is_tried_and_kept() -> None:
    (proposal,) = assessed(1.0, 0.5)
    assert proposal.durability_class == "D0"
    assert proposal.assessment.price == snapshot(
        "with more clients, the application must have so many transactions to do at the same"
        " time, and each client is a session of the server, unless they share a pool; with fewer,"
        " what else it has to do waits in the application, where the response time does not count"
        " it"
    )
    halved = measured((0.98, 1.0, 1.02), (0.45, 0.5, 0.55))
    assert decision_of(proposal, halved, may_keep=True) == "kept"
    assert recheck_decision_of(halved) == "still earns"
    proof = proof_of(proposal, halved)
    assert proof is not None
    assert proof.status == "helped"


@pytest.mark.parametrize(
    ("throughput", "p99"),
    [
        ((0.75, 0.8, 0.85), (0.45, 0.5, 0.55)),  # less work
        ((0.98, 1.0, 1.02), (0.9, 0.95, 1.0)),  # no shorter response
    ],
)
def test_fewer_clients_that_do_less_or_answer_no_faster_are_rejected(
    throughput: tuple[float, float, float], p99: tuple[float, float, float]
) -> None:
    (proposal,) = assessed(1.0, 0.5)
    assert decision_of(proposal, measured(throughput, p99), may_keep=True) == "rejected"


@pytest.mark.parametrize(("throughput", "response"), [(0.95, 0.53), (1.0, 0.95), (1.0, None)])
def test_what_is_predicted_to_cost_throughput_or_gain_nothing_is_not_tried(
    throughput: float, response: float | None
) -> None:
    assert not assessed(throughput, response)
