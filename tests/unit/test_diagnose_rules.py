"""What holds for every diagnosis: nothing is counted twice, and skipped is not passed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, ROW, WAL_QUEUE, WAL_SYNC, Load, diagnosed, ranked, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from record_samples import new_recorder

from pgdyno.diagnose import UNEXPLAINED, diagnose
from pgdyno.facts.model import ClosedLoop, queue_cost_of
from pgdyno.facts.situation import Situation
from pgdyno.record import RunFile
from pgdyno.record.events import note_missing
from pgdyno.remedy import Circumstances, assess, catalogue
from pgdyno.rules.rule import rules_of_loads

NO_WAIT = {"stall", "few-clients"}
"""Findings that own no wait of their own: their share is that of all waits together."""
EIGHT = {
    "checkpoint-fpi",
    "client-limited",
    "client-pool",
    "commit-flush",
    "connections",
    "hot-row",
    "server-cpu",
    "stall",
}

averages = st.floats(0, 20).map(lambda value: round(value, 2))
shares = st.floats(0, 1).map(lambda value: round(value, 3))
waits_ms = st.floats(0, 1000).map(lambda value: round(value, 3))


@st.composite
def some_loads(draw: st.DrawFn) -> Load:
    """Loads whose numbers need not make sense together, but keep Little's law."""
    clients, pool = draw(st.integers(1, 200)), draw(st.none() | st.integers(1, 64))
    service_ms = draw(st.floats(0.05, 1000))
    sessions_max = min(clients, pool or clients)
    return Load(
        clients=clients,
        pool=pool,
        cores=draw(st.integers(1, 64)),
        tps=max(1.0, min(50_000.0, draw(st.floats(0.01, 1)) * sessions_max * 1000 / service_ms)),
        pool_wait_ms=draw(waits_ms),
        lag_ms=draw(waits_ms),
        service_ms=service_ms,
        sessions={kind: draw(averages) for kind in (CPU, WAL_SYNC, WAL_QUEUE, ROW, IDLE)},
        busy=draw(st.none() | shares),
        queued=draw(st.none() | averages),
        system=draw(shares),
        server=draw(shares),
        generator_busy=draw(shares),
        generator_queued=draw(shares),
        wal=draw(st.none() | wal_rates),
    )


wal_rates = st.fixed_dictionaries(
    {
        "wal_bytes": st.integers(0, 10**9),
        "wal_records": st.integers(0, 10**6),
        "wal_fpi": st.integers(0, 10**5),
        "wal_sync": st.integers(0, 10**4),
        "wal_sync_time_ms": st.integers(0, 2000),
        "wal_buffers_full": st.integers(0, 10**4),
    }
)
loads = some_loads()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(load=loads)
def test_every_load_is_diagnosed_soundly(folder: Path, load: Load) -> None:
    findings = ranked(folder, load)
    assert {finding.id for finding in findings} >= EIGHT
    found = [finding for finding in findings if finding.status == "found"]
    limits = [finding.rank for finding in found if finding.rank is not None]
    assert limits == list(range(1, len(limits) + 1))
    ids = {finding.id for finding in found}
    known = catalogue()
    changes = []
    for finding in findings:
        json.dumps(finding.to_json())
        assert not finding.sentence.endswith(".")
        if finding.status != "skipped":
            assert finding.evidence, finding.id
        if finding.status != "found":
            assert not finding.proposals
            assert finding.rank is None
        assert set(finding.causes) <= ids - {finding.id}
        for proposal in finding.proposals:
            shorter = proposal.predicted_response_ratio
            assert proposal.predicted_ratio >= 1.03 if shorter is None else shorter < 1.0
            assert proposal.remedy_id in known
            assert assess(proposal.change, Circumstances()).lines_to_apply()
            changes.append((proposal.remedy_id, json.dumps(proposal.change.to_json())))
    assert len(changes) == len(set(changes)), "a change is proposed twice"
    assert sum(f.share for f in found if f.id not in NO_WAIT) <= 1.001, "a wait is counted twice"


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(load=loads)
def test_the_budget_adds_up_to_the_response(folder: Path, load: Load) -> None:
    with written(folder, load) as run:
        situation = Situation(run, [part.id for part in run.slices()])
        if sum(load.sessions.values()) < 0.01:
            return
        budget = situation.budget
        assert sum(budget.parts_ms.values()) == pytest.approx(budget.response_ms, rel=1e-6)
        assert all(ms >= -1e-9 for ms in budget.parts_ms.values())


loops = st.builds(
    ClosedLoop,
    cores=st.integers(1, 64).map(float),
    sessions=st.floats(1, 64),
    throughput_tps=st.floats(1, 50_000),
    cpu_s=st.floats(1e-6, 0.1),
    cpu_system_share=st.floats(0, 1),
    flush_s=st.floats(0, 0.1),
    row_s=st.floats(0, 0.1),
    shared_s=st.floats(0, 0.1),
    data_s=st.floats(0, 0.1),
    queue_cost=st.floats(0, 1),
    queue_now=st.floats(0, 64),
)


@given(loop=loops, m=st.integers(1, 128))
def test_no_prediction_beats_the_cores_or_the_sessions(loop: ClosedLoop, m: int) -> None:
    fitted = replace(loop, rest_s=0.0).fitted()
    tps = fitted.predict(sessions=m)
    least_s = fitted.cpu_s / (1.0 + fitted.queue_cost * 10)
    assert 0 < tps <= fitted.cores / least_s * (1 + 1e-9)
    assert tps <= m / (least_s + fitted.data_s) * (1 + 1e-9)


@given(loop=loops)
def test_lifting_a_limit_harms_at_most_by_the_queue_for_cores(loop: ClosedLoop) -> None:
    fitted = loop.fitted()
    least = 1 / (1 + fitted.queue_cost * math.log(max(1.0, math.ceil(loop.sessions) / loop.cores)))
    for name in ("flush", "row", "shared", "data"):
        assert fitted.ratio(**{name: 0.0}) >= least * (1 - 1e-6)
    assert fitted.ratio(cpu=0.5) >= least * (1 - 1e-6)


def test_the_model_repeats_what_was_measured() -> None:
    """The facts that it was calibrated with, and the way from one to the other."""
    pool = ClosedLoop(2.0, 2.0, 2500.0, 0.8 / 2500, 0.6, flush_s=0.00045, queue_now=0.8).fitted()
    assert pool.predict() == pytest.approx(2500, rel=0.02)
    assert 1.5 < pool.ratio(sessions=16) < 2.5


@pytest.mark.parametrize(
    ("tps", "round_trips", "measured"),
    [(74_360, 1, 112_635 / 74_360), (9_425, 7, 16_178 / 9_425), (521, 1, 551 / 521)],
)
def test_the_cost_of_a_queue_is_that_of_the_round_trips(
    tps: float, round_trips: float, measured: float
) -> None:
    cost = queue_cost_of(2.0 / tps, round_trips, queue=16.0, cores=2.0)
    loop = ClosedLoop(2.0, 16.0, tps, 2.0 / tps, queue_cost=cost, queue_now=16.0).fitted()
    predicted = loop.ratio(sessions=4)
    assert predicted.low <= measured * 1.05
    assert predicted == pytest.approx(measured, rel=0.25)


def test_fewer_sessions_may_relieve_contention_in_shared_memory() -> None:
    contended = ClosedLoop(64.0, 400.0, 20_000.0, 5e-5, shared_s=0.0195).fitted()
    assert 1.05 < contended.ratio(sessions=200) < 1.15
    assert contended.ratio(sessions=800) < 1.0
    waiting = ClosedLoop(64.0, 400.0, 20_000.0, 5e-5, data_s=0.0195).fitted()
    assert waiting.ratio(sessions=200) < 0.6


def test_what_could_not_be_checked_is_skipped_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with new_recorder(path, spec={"clients": []}, host={"cores": 2}) as recorder:
        note_missing(recorder, "wait", "permission denied for view pg_stat_activity")
        slice_id = recorder.open_slice("run")
        recorder.close_slice(slice_id)
        recorder.finish("done")
    with RunFile(path) as run:
        diagnosis = diagnose(run, [slice_id])
    findings = diagnosis.findings
    skipped = {finding.id: finding for finding in findings if finding.status == "skipped"}
    assert "permission denied" in skipped["commit-flush"].sentence
    assert diagnosis.verdict.finding == UNEXPLAINED


def test_woken_sessions_in_the_queue_for_a_core_do_not_wait_for_their_client(
    tmp_path: Path,
) -> None:
    """On busy cores sampling shows them where they were woken from; the kernel's count tells."""
    load = Load(
        clients=32,
        tps=6000,
        service_ms=5.2,
        sessions={CPU: 0.1, IDLE: 29.0},
        busy=0.99,
        generator_busy=0.2,
        queued=28.0,
        statements={"select 1": 42_000},
    )
    found = diagnosed(tmp_path, load)
    assert found["connections"].status == "found"
    patient = replace(load, busy=0.5, queued=1.5)
    assert diagnosed(tmp_path, patient)["connections"].status == "cleared"


def test_a_server_elsewhere_is_judged_by_its_sessions(tmp_path: Path) -> None:
    far = Load(clients=16, tps=8700, service_ms=1.8, sessions={CPU: 13.0}, busy=None)
    found = diagnosed(tmp_path, far)
    assert found["server-cpu"].status == "found"
    assert found["server-cpu"].confidence <= 0.5


def test_the_change_in_force_counts_not_the_spec(tmp_path: Path) -> None:
    load = Load(
        clients=16,
        pool=2,
        tps=2500,
        pool_wait_ms=5.6,
        service_ms=0.8,
        sessions={CPU: 0.7, WAL_SYNC: 1.1},
        busy=0.5,
        change={"pool_max": {"web": 4}, "settings": {"synchronous_commit": "off"}},
    )
    findings = diagnosed(tmp_path, load)
    evidence = {item.name: item.value for item in findings["client-pool"].evidence}
    assert evidence["pool size"] == 4
    proposed = {p.remedy_id for p in findings["commit-flush"].proposals}
    assert "synchronous-commit-off" not in proposed


def test_findings_are_stored_and_read_back(tmp_path: Path) -> None:
    findings = ranked(tmp_path, Load(), step=2)
    with new_recorder(tmp_path / "other.db") as recorder:
        for finding in findings:
            recorder.add_finding(finding)
        recorder.finish("done")
    with RunFile(tmp_path / "other.db") as run:
        rows = run.findings(step=2)
    assert sorted(row.id for row in rows) == sorted(finding.id for finding in findings)


def test_signature_ids_are_those_of_the_guide() -> None:
    ids = [rule.id for rule in rules_of_loads()]
    assert set(ids) >= EIGHT
    assert all(a < b for a, b in itertools.pairwise(ids))
