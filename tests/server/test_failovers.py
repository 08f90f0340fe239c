"""Failovers under load: what is proved, what is lost by mode, and how long no commit came back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.drill._failing_over import Failover, outage_of
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import AckOutcome, RunFile, read_acks
from pgdyno.record.cut import Outage
from pgdyno.results.drill import Drill
from pgdyno.server import Cluster, Installation
from pgdyno.spec import spec_from_fields
from pooler_fixtures import FOLLOWING_POOLER

Drilled = Callable[..., Drill]


@pytest.fixture
def drilled(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Drilled:
    # Each moment that matters is waited for.
    monkeypatch.setattr("pgdyno.drill._failing_over._AFTER_S", 0.1)
    monkeypatch.setattr("pgdyno.drill._failing_over._LOOK_S", 0.1)
    monkeypatch.setattr("pgdyno.drill.faults.partition.BOTH_S", 0.1)

    def run(
        fault: str,
        mode: str = "async",
        count: int = 1,
        major: int = 18,
        more: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Drill:
        installation_of(major)
        spec = spec_from_fields(
            {
                "server": {"version": major},
                "standby": {"mode": mode, "count": count},
                "workload": {"scale": 1},
                "clients": [{"count": 4, "think": "20ms"}],
                **(more or {}),
            }
        )
        given = {"fault": fault, "cuts": 1, "seed": 4, "load_s": 0.3, **options}
        path = tmp_path / "run.db"
        result = run_drill(spec, DrillOptions(**given), watcher=Silent(), run=path)
        with RunFile(path) as recorded:
            # What did not happen has no verification on record.
            assert result.sham or stored_drills(recorded)[0] == result
        return result

    return run


def parts_ms(outage: Outage) -> float:
    """All of the outage; the rest is what the clients were doing when it began."""
    before_ms = outage.stop_ms + outage.detect_ms + outage.promote_ms
    return before_ms + outage.connect_ms + outage.commit_ms


def acked_since(failover: Failover, since_ns: int) -> bool:
    """Whether a transaction that began later was acknowledged."""
    acks = read_acks(failover.drill.acks_directory()).records
    return bool(((acks["outcome"] == AckOutcome.ACKED) & (acks["sent_ns"] > since_ns)).any())


@pytest.fixture
def cut_off_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A primary that is cut off goes on at least until it has acknowledged something."""
    cut_off = Failover.cut_off

    def for_long(failover: Failover) -> None:
        cut_off(failover)
        since_ns = failover.moments.detected_ns
        wait_until(lambda: acked_since(failover, since_ns), "it acknowledges what is lost")

    monkeypatch.setattr(Failover, "cut_off", for_long)


@pytest.mark.alike
@pytest.mark.parametrize(("major", "standbys", "cuts"), [(15, 2, 1), (18, 1, 2)])
def test_a_crash_is_detected_and_clients_find_the_promoted_standby(
    drilled: Drilled, monkeypatch: pytest.MonkeyPatch, major: int, standbys: int, cuts: int
) -> None:
    """Of two standbys, commits wait for one, so that the other may lack some of them; a second
    failover begins with the first primary."""
    detect, primaries = Failover.detect, []

    def timed(failover: Failover) -> None:
        began_ns = time.monotonic_ns()
        detect(failover)
        primaries.append(failover.primary.data_dir)
        waited_ns = failover.moments.detected_ns - began_ns
        assert waited_ns >= 0.3e9

    monkeypatch.setattr(Failover, "detect", timed)
    result = drilled("failover", "on", standbys, major, detect_s=0.3, cuts=cuts)
    assert len(result.cuts) == len(primaries) == cuts
    assert len(set(primaries)) == 1
    for cut in result.cuts:
        assert cut.outcome == "clean"
        assert cut.proof.happened
        assert "selected new timeline ID: 2" in cut.proof.sentence
        outage = cut.outage
        assert outage is not None
        assert (outage.clients, outage.clients_back, outage.both_ms) == (4, 4, 0.0)
        assert 0 < outage.detect_ms <= outage.no_commit_ms
        assert parts_ms(outage) <= outage.no_commit_ms + 0.01
        assert outage.acked_after > 0
    assert result.summary.bound_ms == 0.0
    longest_ms = max(cut.outage.no_commit_ms for cut in result.cuts if cut.outage)
    assert result.summary.no_commit_ms_max == longest_ms


@pytest.mark.long
def test_a_switchover_loses_nothing_without_synchronous_standbys(
    drilled: Drilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, ways = Failover.stop_primary, []

    def stop_it(failover: Failover, how: Callable[[Cluster], object]) -> None:
        ways.append(how)
        stop(failover, how)

    monkeypatch.setattr(Failover, "stop_primary", stop_it)
    result = drilled("switchover")
    (cut,) = result.cuts
    assert cut.outcome == "clean"
    assert result.summary.bound_ms == 0.0
    assert cut.outage is not None
    assert cut.outage.detect_ms == 0.0
    assert ways == [Cluster.stop]


@pytest.mark.usefixtures("cut_off_for_long")
def test_a_primary_that_is_cut_off_acknowledges_what_is_lost(drilled: Drilled) -> None:
    result = drilled("partition", cuts=2, detect_s=0.1)
    assert [cut.variant for cut in result.cuts] == ["fenced", "unfenced"]
    assert result.summary.bound_ms is None
    for cut in result.cuts:
        assert cut.outcome == "lost"
        assert cut.ledger is not None
        assert cut.ledger.lost > 0
        assert cut.ledger.lost_ms > 0
        assert cut.outage is not None
        assert (cut.outage.both_ms > 0) == (cut.variant == "unfenced")
    assert "before the end of the old primary" in result.summary.sentence


def test_a_primary_that_is_cut_off_acknowledges_nothing_if_commits_wait_for_the_standby(
    drilled: Drilled,
) -> None:
    (cut,) = drilled("partition", "on", variant="unfenced", detect_s=0.3).cuts
    assert cut.outcome == "clean"


@pytest.mark.long
def test_in_a_sham_nothing_is_promoted(drilled: Drilled) -> None:
    (cut,) = drilled("failover", detect_s=0.1, sham=True).cuts
    assert cut.outcome == "no-fault"
    assert cut.outage is None


def test_detecting_is_for_faults_that_are_detected(drilled: Drilled) -> None:
    with pytest.raises(UsageError, match="promotes none after a time"):
        drilled("switchover", detect_s=1.0)
    with pytest.raises(UsageError, match="at most 20s"):
        drilled("failover", detect_s=25.0)


@pytest.mark.usefixtures("pgbouncer")
def test_a_pooler_is_told_of_the_new_primary_and_keeps_its_clients(drilled: Drilled) -> None:
    (cut,) = drilled("failover", "on", detect_s=0.1, more=FOLLOWING_POOLER).cuts
    assert cut.outcome == "clean"
    assert cut.outage is not None
    assert cut.outage.clients_back == 4
    assert cut.outage.connect_ms > 0
    assert parts_ms(cut.outage) <= cut.outage.no_commit_ms + 0.01


@pytest.mark.usefixtures("pgbouncer", "cut_off_for_long")
@pytest.mark.long
def test_clients_of_a_pooler_leave_an_unfenced_primary_at_once(
    drilled: Drilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Failover.stop_primary

    def once_all_have_left(failover: Failover, how: Callable[[Cluster], object]) -> None:
        def all_have_left() -> bool:
            outage = outage_of(read_acks(failover.drill.acks_directory()), failover.moments)
            return outage is not None and outage.clients_back == 4

        wait_until(all_have_left, "all clients have committed on the new primary")
        stop(failover, how)

    monkeypatch.setattr(Failover, "stop_primary", once_all_have_left)
    more = FOLLOWING_POOLER
    (cut,) = drilled("partition", variant="unfenced", detect_s=0.1, more=more).cuts
    assert cut.outcome == "lost"
    assert cut.outage is not None
    assert cut.outage.clients_back == 4
    assert cut.outage.both_ms > 0
