"""What makes commits slow is told apart: the device, commit_delay, the standby, busy cores."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, ROW, WAL_QUEUE, WAL_SYNC, Load, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

SYNC_REP = ("IPC", "SyncRep")
COMMIT_DELAY = ("Timeout", "CommitDelay")

# Sixteen clients and a device of which each flush takes 5 ms: one syncs, fourteen queue behind it.
SLOW_DEVICE = Load(
    clients=16,
    tps=1500,
    service_ms=10.6,
    sessions={CPU: 0.3, WAL_SYNC: 1.0, WAL_QUEUE: 13.5, IDLE: 1.0},
    busy=0.3,
    wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 190, "wal_sync_time_ms": 980},
    counters={
        "metric_disk": [{"device": "loop0", "holds": "data,wal", "flushes": 190, "flush_ms": 950}]
    },
)
# The same throughput from a device that takes 0.3 ms, with a delay of 5 ms before each flush.
DELAYED = replace(
    SLOW_DEVICE,
    sessions={CPU: 1.2, WAL_SYNC: 0.06, WAL_QUEUE: 13.5, IDLE: 1.0},
    queued=2.0,
    wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 185, "wal_sync_time_ms": 55},
    settings={"commit_delay": "5000"},
    counters={
        "metric_disk": [{"device": "vda", "holds": "data,wal", "flushes": 190, "flush_ms": 20}]
    },
)
BACK_TO_BACK = {
    "wal": {"wal_bytes": 3e6, "wal_records": 3e4, "wal_sync": 900, "wal_sync_time_ms": 850},
    "sessions": {CPU: 0.3, WAL_SYNC: 0.9, WAL_QUEUE: 12.0, IDLE: 1.0},
}
STANDBY = replace(
    DELAYED,
    sessions={CPU: 0.3, WAL_SYNC: 0.3, WAL_QUEUE: 0.6, SYNC_REP: 13.8, IDLE: 1.0},
    settings={},
)


def test_a_slow_device_is_called_slow(tmp_path: Path) -> None:
    first = ranked(tmp_path, SLOW_DEVICE)[0]
    assert first.id == "commit-flush"
    assert first.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 5.2 ms: the device is slow"
    )


def test_without_timing_the_samples_tell_the_time_of_a_sync(tmp_path: Path) -> None:
    untimed = replace(SLOW_DEVICE, wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 190})
    first = ranked(tmp_path, untimed)[0]
    assert first.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 5.3 ms: the device is slow"
    )
    sampled = {item.name: item.value for item in first.evidence}["time of a WAL sync, sampled"]
    assert sampled == pytest.approx(1000 / 190, rel=0.01)


def test_a_slow_sync_on_a_fast_device_is_not_the_device_s(tmp_path: Path) -> None:
    counters = {"metric_disk": [{"device": "vda", "holds": "wal", "flushes": 190, "flush_ms": 40}]}
    finding = diagnosed(tmp_path, replace(SLOW_DEVICE, counters=counters))["commit-flush"]
    assert finding.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 5.2 ms, of which the device's flush is 0.21 ms"
    )


def test_a_slow_sync_on_busy_cores_is_not_blamed_on_a_device_that_was_not_seen(
    tmp_path: Path,
) -> None:
    finding = diagnosed(tmp_path, replace(SLOW_DEVICE, busy=0.97, counters={}))["commit-flush"]
    assert finding.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 5.2 ms, the device's own part of which is not known"
    )


def test_a_share_of_few_samples_promises_less(tmp_path: Path) -> None:
    """The same flushes, seen by more sessions or by fewer."""
    ends = []
    for name, clients in (("many", 64), ("few", 2)):
        scale = clients / 16
        sessions = {event: n * scale for event, n in SLOW_DEVICE.sessions.items()}
        (folder := tmp_path / name).mkdir()
        load = replace(SLOW_DEVICE, clients=clients, tps=1500 * scale, sessions=sessions, cores=64)
        finding = diagnosed(folder, load)["commit-flush"]
        ends.append(finding.proposals[0].prediction)
    many, few = (math.log(each.low) / math.log(each) for each in ends)
    assert many > few


def test_another_device_says_nothing_of_the_wal_s(tmp_path: Path) -> None:
    counters = {"metric_disk": [{"device": "sdb", "holds": "data", "flushes": 190, "flush_ms": 1}]}
    finding = diagnosed(tmp_path, replace(SLOW_DEVICE, counters=counters))["commit-flush"]
    assert finding.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 5.2 ms: the device is slow"
    )


def test_a_device_that_is_not_slow_is_named_with_its_time(tmp_path: Path) -> None:
    fast = replace(
        SLOW_DEVICE,
        tps=9000,
        service_ms=1.77,
        wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 1100, "wal_sync_time_ms": 990},
        counters={"metric_disk": [{"device": "vda", "holds": "wal", "flushes": 1100,
                                   "flush_ms": 880}]},
    )  # fmt: skip
    first = diagnosed(tmp_path, fast)["commit-flush"]
    assert first.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 0.9 ms, of which the device's flush is 0.8 ms"
    )
    uncounted = diagnosed(tmp_path, replace(fast, counters={}))["commit-flush"]
    assert uncounted.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 0.9 ms"
    )


def test_a_device_without_the_server_s_timing_is_named(tmp_path: Path) -> None:
    unsynced = replace(SLOW_DEVICE, wal=None)
    finding = diagnosed(tmp_path, unsynced)["commit-flush"]
    assert finding.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk; the device"
        " flushes in 5 ms"
    )
    unknown = diagnosed(tmp_path, replace(unsynced, counters={}))["commit-flush"]
    assert unknown.sentence == snapshot(
        "91 % of the response time is spent waiting for the WAL to reach the disk"
    )


def test_one_client_behind_a_slow_device_is_told_of_it(tmp_path: Path) -> None:
    one = replace(SLOW_DEVICE, clients=1, tps=180, service_ms=5.5, sessions={WAL_SYNC: 0.95})
    first = ranked(tmp_path, one)[0]
    assert first.id == "few-clients"
    assert first.sentence == snapshot(
        "one client sends one transaction after another, so throughput is bounded by its response"
        " time of 5.5 ms (96 % the WAL flush); a sync takes 5.2 ms: the device is slow"
    )
    waiting = replace(one, sessions={CPU: 0.9, WAL_SYNC: 0.05})
    assert "sync" not in diagnosed(tmp_path, waiting)["few-clients"].sentence


@pytest.mark.parametrize(
    ("method", "proposed"),
    [("fsync", True), ("open_sync", True), ("fdatasync", False), ("open_datasync", False),
     ("fsync_writethrough", False)],
)  # fmt: skip
def test_a_sync_method_that_flushes_more_than_is_needed_is_reset(
    tmp_path: Path, method: str, proposed: bool
) -> None:
    wal = {"wal_bytes": 3e6, "wal_records": 30_000, "wal_write": 190, "wal_sync": 190}
    set_so = replace(SLOW_DEVICE, wal=wal, settings={"wal_sync_method": method})
    changes = [p.change.settings for p in diagnosed(tmp_path, set_so)["commit-flush"].proposals]
    assert ({"wal_sync_method": "fdatasync"} in changes) is proposed
    away = replace(set_so, host_facts={"same_host_as_server": False})
    others = [p.change.settings for p in diagnosed(tmp_path, away)["commit-flush"].proposals]
    assert {"wal_sync_method": "fdatasync"} not in others


def test_commit_delay_is_named_and_its_reset_proposed(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, DELAYED)
    finding = findings["commit-delay"]
    assert finding.rank == 1, finding
    assert finding.sentence == snapshot(
        "commit_delay holds each commit back by 5 ms before its flush, which takes 0.3 ms"
    )
    assert finding.share > 0.7
    (proposal,) = finding.proposals
    assert proposal.remedy_id == "reset-setting"
    assert proposal.change.settings == {"commit_delay": "0"}
    assert proposal.predicted_ratio > 2
    assert "slow" not in findings["commit-flush"].sentence


def test_commit_delay_is_the_root_of_rows_that_are_held_through_it(tmp_path: Path) -> None:
    """What loses nothing is not behind what promises a little more and may lose commits."""
    held = replace(
        DELAYED, sessions={CPU: 1.2, WAL_SYNC: 0.06, WAL_QUEUE: 4.0, ROW: 9.5, IDLE: 1.0}
    )
    first, second, *_ = ranked(tmp_path, held)
    assert (first.id, second.id) == ("commit-delay", "hot-row")
    best = {each.remedy_id: each.predicted_ratio for each in second.proposals}
    assert best["synchronous-commit-off"] > first.proposals[0].predicted_ratio


def test_commit_delay_holds_a_single_client_where_no_others_are_asked_for(tmp_path: Path) -> None:
    one = replace(
        DELAYED,
        clients=1,
        tps=180,
        service_ms=5.5,
        sessions={CPU: 0.02, WAL_SYNC: 0.06, COMMIT_DELAY: 0.9},
        settings={"commit_delay": "5000", "commit_siblings": "0"},
    )
    assert diagnosed(tmp_path, one)["commit-delay"].status == "found"
    with_others = replace(one, settings={"commit_delay": "5000"})
    assert diagnosed(tmp_path, with_others)["commit-delay"].status == "cleared"


def test_commit_delay_is_told_though_no_sample_saw_a_sync(tmp_path: Path) -> None:
    unseen = replace(
        DELAYED,
        sessions={CPU: 1.2, WAL_QUEUE: 13.5, IDLE: 1.0},
        wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 185},
    )
    finding = ranked(tmp_path, unseen)[0]
    assert finding.id == "commit-delay"
    names = [each.name for each in finding.evidence]
    assert "time of a WAL sync, sampled, at most" in names


def test_a_device_is_not_called_slow_by_syncs_that_no_sample_saw(tmp_path: Path) -> None:
    wal = {"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 2}
    sessions = {CPU: 1.3, WAL_QUEUE: 13.5, IDLE: 1.0}
    unseen = replace(SLOW_DEVICE, sessions=sessions, wal=wal, counters={})
    assert "a sync takes" not in diagnosed(tmp_path, unseen)["commit-flush"].sentence


def test_commit_delay_may_hold_most_commits_and_few_syncs(tmp_path: Path) -> None:
    """400 syncs a second do not wait 5 ms each, but sessions wait while none is in a sync."""
    wal = {"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 400, "wal_sync_time_ms": 120}
    load = replace(DELAYED, wal=wal, sessions={**DELAYED.sessions, WAL_SYNC: 0.12})
    assert diagnosed(tmp_path, load)["commit-delay"].status == "found"


def test_commit_delay_may_act_where_all_clients_have_something_to_commit(tmp_path: Path) -> None:
    """Of six clients, some of which read, all are open now and then. Without it the throughput was
    6.6 times as high."""
    load = Load(
        clients=6,
        tps=1807,
        service_ms=3.1,
        sessions={CPU: 0.9, WAL_SYNC: 0.18, WAL_QUEUE: 4.12, IDLE: 0.75},
        wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 458},
        settings={"commit_delay": "10000"},
    )
    assert diagnosed(tmp_path, load)["commit-delay"].status == "found"
    fewer = replace(load, clients=5)
    assert diagnosed(tmp_path, fewer)["commit-delay"].status == "cleared"


def test_commit_delay_may_hold_some_of_the_flushes(tmp_path: Path) -> None:
    """Of eight clients, some of which read, mostly five others have something to commit."""
    load = Load(
        clients=8,
        tps=1740,
        service_ms=4.58,
        sessions={CPU: 1.44, WAL_SYNC: 0.34, WAL_QUEUE: 5.08, IDLE: 0.04},
        wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 198},
        settings={"commit_delay": "10000"},
    )
    finding = diagnosed(tmp_path, load)["commit-delay"]
    assert finding.sentence == snapshot(
        "commit_delay holds 20 % of the flushes, which take 1.7 ms each, back by 10 ms"
    )
    (proposal,) = finding.proposals
    assert 1.3 < proposal.predicted_ratio < 2.0
    unheld = replace(load, sessions={**load.sessions, WAL_SYNC: 0.7})
    assert diagnosed(tmp_path, unheld)["commit-delay"].status == "cleared"


@pytest.mark.parametrize(
    "changed",
    [
        {"sessions": {CPU: 0.1, WAL_SYNC: 3.0, IDLE: 1.0}},  # four transactions, not six
        {"settings": {"commit_delay": "5000", "fsync": "off"}},
        BACK_TO_BACK,
        {"settings": {"commit_delay": "100"}},  # less than a sync
    ],
)
def test_commit_delay_that_does_not_act_is_cleared(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    findings = diagnosed(tmp_path, replace(DELAYED, **changed))  # type: ignore[arg-type]
    assert findings["commit-delay"].status == "cleared"


def test_the_delay_s_own_wait_event_is_believed(tmp_path: Path) -> None:
    newer = replace(
        DELAYED,
        sessions={CPU: 0.3, COMMIT_DELAY: 0.9, WAL_SYNC: 0.06, WAL_QUEUE: 13.5, IDLE: 1.0},
        server_facts={"version_num": 190000},
    )
    finding = diagnosed(tmp_path, newer)["commit-delay"]
    assert finding.status == "found"
    assert finding.share > 0.7


def test_a_standby_that_answers_late_is_neither(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, STANDBY)
    assert findings["commit-flush"].status == "cleared"
    assert findings["commit-delay"].status == "cleared"


def test_a_flush_for_which_rows_are_held_is_not_cleared(tmp_path: Path) -> None:
    """Of ten sessions eight wait for a row whose holders wait for the disk."""
    load = Load(clients=10, tps=400, service_ms=25.0, sessions={ROW: 8.4, WAL_SYNC: 0.8, CPU: 0.3})
    assert diagnosed(tmp_path, load)["commit-flush"].status == "found"
    short = replace(load, sessions={ROW: 8.4, WAL_SYNC: 0.1, CPU: 1.0})
    (folder := tmp_path / "short").mkdir()
    assert diagnosed(folder, short)["commit-flush"].status == "cleared"
