"""CPU time that a quota or a hypervisor takes is told apart from cores that are saturated."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, ROW, Load, diagnosed, ranked, written
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.facts.situation import Situation
from pgdyno.probe._control_groups import Throttling, parse_cpu_stat

# Eight clients that want all they can get of half a core of two.
QUOTA = Load(
    clients=8,
    cores=0.5,  # type: ignore[arg-type]
    tps=4000,
    service_ms=2.0,
    sessions={CPU: 7.5, IDLE: 0.2},
    busy=0.99,
    queued=9.0,
    host_facts={"cores_host": 2},
    quota={"nr_periods": 10, "nr_throttled": 9.5, "throttled_us": 700_000},
)
SATURATED = Load(
    clients=8, tps=9000, service_ms=0.88, sessions={CPU: 7.5, IDLE: 0.2}, busy=0.99, queued=9.0
)


def test_quota_that_stops_the_server_is_the_limit_and_not_the_cores(tmp_path: Path) -> None:
    findings = ranked(tmp_path, QUOTA)
    first = findings[0]
    assert (first.id, first.rank) == ("cpu-throttled", 1)
    assert first.sentence == snapshot(
        "the server's CPU quota of 0.5 cores stops it in 95 % of the periods; without it the"
        " model expects 3.8 times the throughput"
    )
    assert "cpu.max" in first.advice
    found = {each.id for each in findings if each.status == "found"}
    assert not found & {"server-cpu", "connections"}


@pytest.mark.parametrize(
    "quota", [None, {"nr_periods": 10, "nr_throttled": 0.2, "throttled_us": 900}]
)
def test_saturated_cores_are_not_a_quota(tmp_path: Path, quota: dict[str, float] | None) -> None:
    findings = diagnosed(tmp_path, replace(SATURATED, quota=quota))
    assert findings["cpu-throttled"].status == "cleared"
    assert findings["server-cpu"].status == "found"


def test_quota_of_a_server_elsewhere_is_not_checked(tmp_path: Path) -> None:
    elsewhere = diagnosed(tmp_path, replace(QUOTA, busy=None, quota=None))
    assert elsewhere["cpu-throttled"].status == "skipped"


def test_stolen_time_is_found_and_owns_the_queue_for_a_core(tmp_path: Path) -> None:
    stolen = replace(SATURATED, busy=0.75, steal=0.24, queued=3.0, sessions={CPU: 3.0, IDLE: 4.8})
    findings = diagnosed(tmp_path, stolen)
    assert findings["cpu-steal"].status == "found"
    assert findings["cpu-steal"].sentence == snapshot(
        "the hypervisor takes 24 % of the CPU time of the server's machine for other machines"
    )
    assert not findings["cpu-steal"].causes_distrust
    assert findings["server-cpu"].parts == ("running",)


@pytest.mark.parametrize(
    "denied",
    [
        replace(QUOTA, sessions={CPU: 1.5, ROW: 6.0, IDLE: 0.2}, queued=2.0),
        replace(SATURATED, tps=900, service_ms=8.8, busy=0.75, steal=0.24, queued=3.0,
                sessions={CPU: 1.8, ROW: 6.0}),
    ],
)  # fmt: skip
def test_denied_cpu_time_ranks_behind_what_owns_more(tmp_path: Path, denied: Load) -> None:
    """What lifting others would gain is predicted for the cores that are left."""
    found = [each for each in ranked(tmp_path, denied) if each.status == "found"]
    ids = [each.id for each in found]
    assert {"cpu-throttled", "cpu-steal"} & set(ids)
    assert ids[0] == "hot-row", [(each.id, each.share, each.weight) for each in found]


def test_much_stolen_time_makes_everything_else_doubtful(tmp_path: Path) -> None:
    first = ranked(tmp_path, replace(SATURATED, busy=0.5, steal=0.45))[0]
    assert (first.id, first.causes_distrust) == ("cpu-steal", True)


def test_nothing_is_stolen_on_a_quiet_host(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, replace(SATURATED, steal=0.005))["cpu-steal"].status == "cleared"


def test_both_versions_of_control_groups_are_read() -> None:
    second = "usage_usec 9\nnr_periods 40\nnr_throttled 31\nthrottled_usec 2500\nnr_bursts 0"
    first = "nr_periods 40\nnr_throttled 31\nthrottled_time 2500999\nnr_bursts 0\nburst_time 0"
    expected = {"nr_periods": 40, "nr_throttled": 31, "throttled_us": 2500}
    assert parse_cpu_stat(second) == parse_cpu_stat(first) == expected
    assert parse_cpu_stat("usage_usec 9")["nr_periods"] == 0


def test_control_groups_of_a_process_that_is_gone_have_no_rows() -> None:
    throttling = Throttling()
    throttling.follow(2**22 + 1)
    assert throttling.sample() == []


def test_queue_for_a_core_is_that_of_other_programs_if_they_use_more(tmp_path: Path) -> None:
    programs = {("other", "stress"): 1.2, ("kernel", "kworker"): 0.0}
    beside = replace(
        SATURATED, tps=1500, service_ms=2.0, sessions={CPU: 2.8, IDLE: 0.2}, clients=3,
        server=0.3, queued=5.0, programs=programs,
    )  # fmt: skip
    finding = diagnosed(tmp_path, beside)["other-programs"]
    assert finding.status == "found"
    assert finding.parts == ("ready",)
    assert finding.share > 0.2
    woken = replace(
        beside, service_ms=4.0, clients=6, sessions={CPU: 2.5, IDLE: 3.0}, queued=3.0,
        script_ms=[("begin", 0.03), ("update t", 3.0), ("end", 0.97)],
    )  # fmt: skip
    assert diagnosed(tmp_path, woken)["other-programs"].parts == ("ready", "between")
    alone = diagnosed(tmp_path, SATURATED)
    assert "ready" not in alone["other-programs"].parts


def test_what_waits_for_other_cores_of_the_machine_does_not_wait_for_the_servers(
    tmp_path: Path,
) -> None:
    """One of eight cores is the server's, and idle; twenty programs share the others."""
    sending = {("Client", "ClientWrite"): 1.9, CPU: 0.1}
    confined = Load(
        clients=2, cores=1, tps=1.0, service_ms=2000.0, sessions=sending, busy=0.88, server=0.05,
        queued=20.0, host_facts={"cores_host": 8},
    )  # fmt: skip
    with written(tmp_path, confined) as run:
        assert Situation(run, run.valid_slices("run")).runnable < 0.3
