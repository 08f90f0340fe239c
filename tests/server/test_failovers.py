"""Failovers under load: what is proved, what is lost by mode, and how long no commit came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Silent
from pgdyno.drill.model import DrillOptions, DrillResult
from pgdyno.drill.running import run_drill
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.results.drill import Outage
from pgdyno.server import Installation
from pgdyno.spec import spec_from_fields
from pooler_fixtures import FOLLOWING_POOLER

Drilled = Callable[..., DrillResult]


@pytest.fixture
def drilled(installation_of: Callable[[int], Installation], tmp_path: Path) -> Drilled:
    def run(
        fault: str,
        mode: str = "async",
        count: int = 1,
        major: int = 18,
        more: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> DrillResult:
        installation_of(major)
        spec = spec_from_fields(
            {
                "server": {"version": major},
                "standby": {"mode": mode, "count": count},
                "clients": [{"count": 4}],
                **(more or {}),
            }
        )
        given = {"fault": fault, "cuts": 1, "seed": 4, "load_s": 0.6, **options}
        path = tmp_path / "run.db"
        result = run_drill(spec, DrillOptions(**given), watcher=Silent(), run=path)
        with RunFile(path) as recorded:
            # What did not happen has no verification on record.
            assert result.sham or stored_drills(recorded)[0].as_drill() == result.as_drill()
        return result

    return run


def parts_ms(outage: Outage) -> float:
    """All of the outage; the rest is what the clients were doing when it began."""
    before_ms = outage.stop_ms + outage.detect_ms + outage.promote_ms
    return before_ms + outage.connect_ms + outage.commit_ms


@pytest.mark.parametrize("major", [15, 18])
def test_a_crash_is_detected_and_clients_find_the_promoted_standby(
    drilled: Drilled, major: int
) -> None:
    result = drilled("failover", "on", 1, major, detect_s=0.5)
    (cut,) = result.cuts
    assert cut.outcome == "clean"
    assert cut.proof.happened
    assert "selected new timeline ID: 2" in cut.proof.sentence
    outage = cut.outage
    assert outage is not None
    assert (outage.clients, outage.clients_back, outage.both_ms) == (4, 4, 0.0)
    assert 400 <= outage.detect_ms <= outage.no_commit_ms
    assert parts_ms(outage) <= outage.no_commit_ms + 0.01
    assert outage.acked_after > 0
    assert result.bound_ms == 0.0
    assert result.summary().no_commit_ms_max == outage.no_commit_ms


def test_a_second_failover_begins_with_the_first_primary(drilled: Drilled) -> None:
    result = drilled("failover", "on", 1, 18, detect_s=0.3, cuts=2)
    assert [cut.outcome for cut in result.cuts] == ["clean", "clean"]


def test_the_standby_that_has_received_most_is_promoted(drilled: Drilled) -> None:
    """Commits wait for one of the two, so that the other may lack some of them."""
    (cut,) = drilled("failover", "on", 2, 18, detect_s=0.3).cuts
    assert cut.outcome == "clean"


def test_a_switchover_loses_nothing_without_synchronous_standbys(drilled: Drilled) -> None:
    result = drilled("switchover")
    (cut,) = result.cuts
    assert cut.outcome == "clean"
    assert result.bound_ms == 0.0
    assert cut.outage is not None
    assert cut.outage.detect_ms == 0.0
    assert cut.outage.stop_ms > 0


@pytest.mark.parametrize("variant", ["fenced", "unfenced"])
def test_a_primary_that_is_cut_off_acknowledges_what_is_lost(
    drilled: Drilled, variant: str
) -> None:
    # Of one second; the machine may stand still at its beginning and at its end.
    result = drilled("partition", variant=variant, detect_s=1.0)
    (cut,) = result.cuts
    assert cut.outcome == "lost"
    assert cut.ledger is not None
    assert cut.ledger.lost_ms >= 400
    assert result.bound_ms is None
    assert cut.outage is not None
    assert (cut.outage.both_ms > 0) == (variant == "unfenced")
    assert "before the end of the old primary" in result.summary().sentence


def test_a_primary_that_is_cut_off_acknowledges_nothing_if_commits_wait_for_the_standby(
    drilled: Drilled,
) -> None:
    (cut,) = drilled("partition", "on", variant="unfenced", detect_s=0.5).cuts
    assert cut.outcome == "clean"


def test_in_a_sham_nothing_is_promoted(drilled: Drilled) -> None:
    (cut,) = drilled("failover", detect_s=0.3, sham=True).cuts
    assert cut.outcome == "no-fault"
    assert cut.outage is None


def test_detecting_is_for_faults_that_are_detected(drilled: Drilled) -> None:
    with pytest.raises(UsageError, match="promotes none after a time"):
        drilled("switchover", detect_s=1.0)
    with pytest.raises(UsageError, match="at most 20s"):
        drilled("failover", detect_s=25.0)


@pytest.mark.usefixtures("pgbouncer")
def test_a_pooler_is_told_of_the_new_primary_and_keeps_its_clients(drilled: Drilled) -> None:
    (cut,) = drilled("failover", "on", detect_s=0.3, more=FOLLOWING_POOLER).cuts
    assert cut.outcome == "clean"
    assert cut.outage is not None
    assert cut.outage.clients_back == 4
    assert cut.outage.connect_ms > 0
    assert parts_ms(cut.outage) <= cut.outage.no_commit_ms + 0.01


@pytest.mark.usefixtures("pgbouncer")
def test_clients_of_a_pooler_leave_an_unfenced_primary_at_once(drilled: Drilled) -> None:
    (cut,) = drilled("partition", variant="unfenced", detect_s=0.5, more=FOLLOWING_POOLER).cuts
    assert cut.outcome == "lost"
    assert cut.outage is not None
    assert cut.outage.clients_back == 4
    assert cut.outage.no_commit_ms < cut.outage.both_ms
