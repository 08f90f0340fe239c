"""Each signature finds its bottleneck in a run that has it, and clears it in one that has not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import (
    CPU,
    IDLE,
    ROW,
    SECONDS,
    WAL_QUEUE,
    WAL_SYNC,
    Load,
    diagnosed,
    ranked,
    written,
)
from inline_snapshot import snapshot
from msgspec.structs import replace
from record_samples import error_row

from pgdyno.diagnose import Finding, diagnose
from pgdyno.facts.course import course_of
from pgdyno.rules.stalls import _REASONS as STALL_WORDS
from pgdyno.spec.change import Change

# Sixteen clients behind two connections; the server waits for its disk half of the time.
SMALL_POOL = Load(
    clients=16,
    pool=2,
    tps=2500,
    pool_wait_ms=5.6,
    service_ms=0.8,
    sessions={CPU: 0.7, WAL_SYNC: 1.1, IDLE: 0.1},
    busy=0.5,
)
# Sixteen connections that mostly wait for the WAL.
FLUSH = Load(
    clients=16,
    tps=5300,
    service_ms=3.0,
    sessions={CPU: 3.0, WAL_SYNC: 3.0, WAL_QUEUE: 8.0, IDLE: 1.0},
    busy=0.75,
    wal={
        "wal_bytes": 4e6,
        "wal_records": 42_000,
        "wal_fpi": 50,
        "wal_sync": 900,
        "wal_sync_time_ms": 720,
        "wal_buffers_full": 0,
    },
)
# Sixteen connections, commits that wait for nothing, two cores.
CROWD = Load(
    clients=16,
    tps=8700,
    service_ms=1.8,
    sessions={CPU: 13.0, IDLE: 1.0},
    busy=0.99,
    settings={"synchronous_commit": "off"},
)


def test_small_pool_is_the_limit_and_larger_ones_are_proposed(tmp_path: Path) -> None:
    findings = ranked(tmp_path, SMALL_POOL)
    first = findings[0]
    assert (first.id, first.status, first.rank) == ("client-pool", "found", 1)
    assert first.sentence == snapshot(
        "clients wait 5.6 of 6.4 ms for one of 2 connections while the server's machine is 50 %"
        " idle"
    )
    sizes = [proposal.change.pool_max["web"] for proposal in first.proposals]
    assert sizes
    assert all(size is not None and 2 < size <= 16 for size in sizes)
    assert all(1.03 <= proposal.predicted_ratio < 8 for proposal in first.proposals)
    assert findings[0].id == "client-pool"


def test_a_small_pool_is_found_behind_a_backlog(tmp_path: Path) -> None:
    """Nearly all of the response time is the wait for a free client, as more is asked than done."""
    behind = diagnosed(tmp_path, replace(SMALL_POOL, rate=5000, lag_ms=1160.0))["client-pool"]
    assert behind.status == "found"
    assert behind.sentence == diagnosed(tmp_path, SMALL_POOL)["client-pool"].sentence


def test_pool_before_a_saturated_server_is_not_the_limit(tmp_path: Path) -> None:
    busy = replace(
        SMALL_POOL, tps=12_000, pool_wait_ms=1.1, service_ms=0.165, sessions={CPU: 1.7}, busy=0.97
    )
    assert diagnosed(tmp_path, busy)["client-pool"].status == "cleared"


def test_pool_that_nobody_waits_for_is_cleared(tmp_path: Path) -> None:
    roomy = replace(SMALL_POOL, pool=16, pool_wait_ms=0.0)
    assert diagnosed(tmp_path, roomy)["client-pool"].status == "cleared"


def test_commit_flush_is_found_and_asynchronous_commit_predicted(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, FLUSH)["commit-flush"]
    assert (finding.status, finding.rank) == ("found", 1)
    assert finding.sentence == snapshot(
        "69 % of the response time is spent waiting for the WAL to reach the disk; a sync takes"
        " 0.8 ms"
    )
    best = finding.proposals[0]
    assert best.remedy_id == "synchronous-commit-off"
    assert 1.2 < best.predicted_ratio < 3
    assert "fsync-off" in {p.remedy_id for p in finding.proposals}, "allowing is not for diagnosis"


def test_commit_flush_is_cleared_when_commits_do_not_wait(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, CROWD)["commit-flush"].status == "cleared"


def test_crowd_on_the_cores_is_found_and_smaller_pools_proposed(tmp_path: Path) -> None:
    many = replace(CROWD, clients=64, service_ms=7.2, sessions={CPU: 56.0, IDLE: 4.0})
    of_seven = replace(many, statements={"select 1": 7 * CROWD.tps})
    finding = diagnosed(tmp_path, of_seven)["connections"]
    assert (finding.status, finding.rank) == ("found", 1)
    sizes = {proposal.change.pool_max["web"] for proposal in finding.proposals}
    assert min(sizes) >= 8
    assert all(1.03 <= proposal.predicted_ratio < 2 for proposal in finding.proposals)


def test_a_queue_that_costs_little_is_no_crowd(tmp_path: Path) -> None:
    of_seven = replace(CROWD, statements={"select 1": 7 * CROWD.tps})
    assert diagnosed(tmp_path, of_seven)["connections"].status == "cleared"


def test_a_crowd_of_long_statements_would_do_no_more_in_a_smaller_pool(tmp_path: Path) -> None:
    long = replace(CROWD, tps=87, service_ms=180.0, statements={"select 1": 87})
    findings = diagnosed(tmp_path, long)
    assert findings["connections"].status == "cleared"
    assert findings["server-cpu"].rank == 1
    assert (findings["server-cpu"].share or 0.0) > 0.8


def test_sessions_that_wait_for_the_disk_are_no_crowd(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, FLUSH)["connections"].status == "cleared"


def test_saturated_cores_are_found_and_are_a_symptom_of_the_crowd(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, CROWD)["server-cpu"]
    assert found.status == "found"
    assert found.causes == ("connections",)
    assert diagnosed(tmp_path, FLUSH)["server-cpu"].status == "cleared"


def test_saturation_without_a_crowd_has_no_such_cause(tmp_path: Path) -> None:
    alone = replace(CROWD, clients=2, tps=12_000, service_ms=0.16, sessions={CPU: 1.8})
    found = diagnosed(tmp_path, alone)
    assert found["server-cpu"].status == "found"
    assert found["server-cpu"].causes == ()
    assert found["connections"].status == "cleared"


# Four clients, of which one waits for a core on average.
QUEUEING = Load(
    clients=4, tps=1600, service_ms=2.4, sessions={CPU: 2.4, WAL_SYNC: 1.0, IDLE: 0.4}, ready=1.0
)


@pytest.mark.parametrize(
    ("busy", "server", "status"),
    [(0.87, 0.7, "found"), (0.65, 0.5, "cleared"), (0.87, 0.4, "cleared")],
    ids=["nearly busy", "less busy", "busy with something else"],
)
def test_cores_that_are_nearly_busy_are_found_where_sessions_queue_for_one(
    tmp_path: Path, busy: float, server: float, status: str
) -> None:
    queueing = replace(QUEUEING, busy=busy, server=server)
    said = diagnosed(tmp_path, queueing)["server-cpu"]
    assert said.status == status, said.sentence
    if status == "found":
        assert said.sentence == snapshot(
            "2 cores are 87 % busy, 1.2 of them with PostgreSQL and 0.1 with the load generator:"
            " for 31 % of the response time sessions wait for one"
        )
    assert said.parts == ("ready",)
    flowing = replace(queueing, ready=0.1, sessions={CPU: 1.6, IDLE: 2.0})
    assert diagnosed(tmp_path, flowing)["server-cpu"].status == "cleared"


def test_cores_that_others_keep_busy_are_not_the_server_s(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, replace(CROWD, server=0.3))["server-cpu"].status == "cleared"


BRANCHES = {"relation": "public.pgbench_branches", "blocker": "END"}


def test_hot_rows_held_through_the_flush_are_its_symptom(tmp_path: Path) -> None:
    load = replace(
        FLUSH,
        tps=2000,
        service_ms=7.5,
        sessions={CPU: 1.0, WAL_SYNC: 3.0, ROW: 10.0},
        queues=[{**BRANCHES, "waits_with": FLUSH.statement}],
    )
    finding = diagnosed(tmp_path, load)["hot-row"]
    assert (finding.status, finding.rank) == ("found", 1)
    assert finding.causes == ("commit-flush",)
    assert "public.pgbench_branches" in finding.sentence
    evidence = {item.name: item.value for item in finding.evidence}
    assert evidence["waiting statement"] == load.statement


@pytest.mark.parametrize(("scale", "told"), [(1, True), (16, False)])
def test_a_hot_row_of_a_small_scale_says_so(tmp_path: Path, scale: int, told: bool) -> None:
    load = replace(
        FLUSH,
        scale=scale,
        sessions={CPU: 1.0, WAL_SYNC: 3.0, ROW: 10.0},
        queues=[BRANCHES],
    )
    sentence = diagnosed(tmp_path, load)["hot-row"].sentence
    said = "; scale 1 has 1 row in pgbench_branches for 16 clients: -s 16"
    assert sentence.endswith(said) is told, sentence


def test_a_hot_row_of_existing_tables_asks_for_new_ones(tmp_path: Path) -> None:
    """-s alone is ignored where the tables exist."""
    load = replace(
        FLUSH,
        scale=2,
        server_facts={"tables": "theirs"},
        sessions={CPU: 1.0, WAL_SYNC: 3.0, ROW: 10.0},
        queues=[BRANCHES],
    )
    sentence = diagnosed(tmp_path, load)["hot-row"].sentence
    assert sentence == snapshot(
        "10 of 14 sessions in a transaction wait for the same rows in public.pgbench_branches,"
        " held through the commit's flush; a sync takes 0.8 ms; scale 2 has 2 rows in"
        " pgbench_branches for 16 clients: -i -s 16 (drops and makes the four tables)"
    )


def test_a_blocker_that_waits_for_rows_itself_names_the_next_table(tmp_path: Path) -> None:
    """Most samples show waiters for a teller, behind a session that was waiting for the branch."""
    load = replace(
        FLUSH,
        scale=1,
        sessions={CPU: 1.0, WAL_SYNC: 3.0, ROW: 10.0},
        queues=[
            {"relation": "public.pgbench_tellers", "blocker": FLUSH.statement},
            {**BRANCHES, "waiting": 5},
        ],
    )
    finding = diagnosed(tmp_path, load)["hot-row"]
    assert finding.sentence == snapshot(
        "9.1 of 14 sessions in a transaction wait for the same rows in public.pgbench_branches,"
        " held through the commit's flush; a sync takes 0.8 ms; scale 1 has 1 row in"
        " pgbench_branches for 16 clients: -s 16"
    )


def test_a_waiter_now_and_then_is_no_hot_row(tmp_path: Path) -> None:
    calm = replace(FLUSH, sessions={**FLUSH.sessions, ROW: 0.3})
    assert diagnosed(tmp_path, calm)["hot-row"].status == "cleared"


def test_image_storm_asks_for_distance_and_compression(tmp_path: Path) -> None:
    wal = {
        **(FLUSH.wal or {}),
        "wal_bytes": 45e6,
        "wal_fpi": 5300.0,
        "wal_sync": 300.0,
        "wal_sync_time_ms": 900.0,
    }
    load = replace(FLUSH, wal=wal, server_facts={"capabilities": {"lz4": True}})
    finding = diagnosed(tmp_path, load)["checkpoint-fpi"]
    assert finding.status == "found"
    assert "every 13 s" in finding.sentence  # 1 GB / 1.9 at 45 MB/s
    proposed = {p.remedy_id: p.change.settings for p in finding.proposals}
    assert proposed["wal-compression"] == {"wal_compression": "lz4"}
    assert proposed["checkpoint-distance"]["max_wal_size"] == "16GB"
    assert proposed["full-page-writes-off"] == {"full_page_writes": "off"}


@pytest.mark.parametrize(("version_num", "value"), [(140012, "on"), (150020, "pglz")])
def test_compression_without_libraries_falls_back(
    tmp_path: Path, version_num: int, value: str
) -> None:
    wal = {**(FLUSH.wal or {}), "wal_bytes": 45e6, "wal_fpi": 5300.0, "wal_sync_time_ms": 200.0}
    slow_disk = replace(FLUSH, wal=wal, busy=0.3)
    facts = {"version_num": version_num, "capabilities": {"lz4": False}}
    finding = diagnosed(tmp_path, replace(slow_disk, server_facts=facts))["checkpoint-fpi"]
    proposed = {p.remedy_id: p.change.settings for p in finding.proposals}
    assert proposed["wal-compression"] == {"wal_compression": value}


def test_images_own_their_part_of_the_flush_once(tmp_path: Path) -> None:
    wal = {**(FLUSH.wal or {}), "wal_bytes": 45e6, "wal_fpi": 5300.0}
    plain, storm = (diagnosed(tmp_path, replace(FLUSH, wal=w)) for w in (FLUSH.wal, wal))
    together = storm["commit-flush"].share + storm["checkpoint-fpi"].share
    assert storm["checkpoint-fpi"].share > 0.05
    assert together == pytest.approx(plain["commit-flush"].share, rel=0.02)


def test_small_records_far_from_a_checkpoint_are_cleared(tmp_path: Path) -> None:
    calm = replace(FLUSH, settings={"max_wal_size": "64GB"})
    assert diagnosed(tmp_path, calm)["checkpoint-fpi"].status == "cleared"


# 5 MB/s of WAL, more than a third of it images; 1 GB has room for two minutes of it.
THIRD = {"wal_bytes": 5e6, "wal_records": 30_000, "wal_fpi": 250}
FPI_BARS = {
    "WAL written": "at least 1 MB/s",
    "full-page images / WAL bytes (estimate)": "at least 50 %",
    "full-page images / WAL records": "at least 30 %",
    "time to the next checkpoint at this rate": "less than 30 s",
}


def checkpoints(tmp_path: Path, max_wal_size: str, **wal: float) -> tuple[Finding, dict[str, str]]:
    """The finding, and its thresholds by the evidence that they stand beside."""
    load = replace(FLUSH, wal={**(FLUSH.wal or {}), **wal}, settings={"max_wal_size": max_wal_size})
    finding = diagnosed(tmp_path, load)["checkpoint-fpi"]
    return finding, {item.name: item.threshold for item in finding.evidence if item.threshold}


def test_a_checkpoint_in_minutes_with_a_third_of_images_is_no_limit(tmp_path: Path) -> None:
    finding, bars = checkpoints(tmp_path, "1GB", **THIRD)
    assert finding.status == "cleared", finding
    assert bars == FPI_BARS, "all that it stayed below"
    values = {item.name: item.value for item in finding.evidence}
    share = values["full-page images / WAL bytes (estimate)"]
    assert isinstance(share, float)
    assert 0.3 < share < 0.5


@pytest.mark.parametrize(
    ("image_bytes", "status"), [(4.65e6, "found"), (3.2e6, "found"), (1e6, "cleared")]
)
def test_the_share_of_images_is_exact_where_the_server_counts_their_bytes(
    tmp_path: Path, image_bytes: float, status: str
) -> None:
    finding, _ = checkpoints(tmp_path, "1GB", **THIRD, wal_fpi_bytes=image_bytes)
    values = {item.name: item.value for item in finding.evidence}
    assert values["full-page images / WAL bytes"] == pytest.approx(image_bytes / 5e6)
    assert finding.status == status


@pytest.mark.parametrize(("updated", "status"), [(3, "cleared"), (30_000, "found")])
def test_wal_of_a_load_that_writes_no_rows_is_not_its_own(
    tmp_path: Path, updated: int, status: str
) -> None:
    load = replace(FLUSH, wal={**(FLUSH.wal or {}), **THIRD}, settings={"max_wal_size": "128MB"})
    with written(tmp_path, load) as run:
        (measured,) = run.slices()
        rows = [(1, measured.id, 0, 0, 0), (9000, measured.id, 0, updated, 0)]
        with closing(sqlite3.connect(run.path)) as database, database:
            database.executemany(
                "insert into metric_database"
                " (at_ms, slice_id, tup_inserted, tup_updated, tup_deleted) values (?, ?, ?, ?, ?)",
                rows,
            )
        findings = {each.id: each for each in diagnose(run, [measured.id]).findings}
    assert findings["checkpoint-fpi"].status == status
    if status == "cleared":
        assert findings["checkpoint-fpi"].sentence == snapshot("the load writes no rows")


def test_what_was_not_met_is_no_threshold_of_a_finding(tmp_path: Path) -> None:
    finding, bars = checkpoints(tmp_path, "128MB", **THIRD)  # every 14 s
    assert finding.status == "found"
    assert bars.keys() == {"time to the next checkpoint at this rate"}

    images = {"wal_bytes": 45e6, "wal_fpi": 5300.0, "wal_sync": 300.0, "wal_sync_time_ms": 900.0}
    finding, bars = checkpoints(tmp_path, "4GB", **images)  # every 50 s
    assert finding.status == "found"
    assert bars.keys() == {"WAL written", "full-page images / WAL bytes (estimate)"}
    assert "checkpoint-distance" in {p.remedy_id for p in finding.proposals}


STEADY = [5000.0] * SECONDS
STALLED = [*STEADY[:4], 20.0, 0.0, *STEADY[6:]]
STALLS = {
    "lock": {"sessions": {("Lock", "relation"): 15.0}},
    "a checkpoint": {"checkpointer": ("IO", "DataFileSync")},
    "the kernel": {"host": {"writeback_bytes": 500 << 20}, "held_us": 900_000},
    "vacuum": {"vacuum": "public.pgbench_accounts"},
    "WAL's device": {"sessions": {WAL_SYNC: 1.0, WAL_QUEUE: 14.0}},
    "no recorded cause": {},
}


@pytest.mark.parametrize("cause", STALLS)
def test_stall_is_tied_to_what_overlaps_it(tmp_path: Path, cause: str) -> None:
    idle = {"sessions": {CPU: 0.2}}
    load = replace(
        FLUSH,
        tps_by_second=STALLED,
        by_second={second: {**idle, **STALLS[cause]} for second in (4, 5)},
    )
    finding = diagnosed(tmp_path, load)["stall"]
    assert finding.status == "found"
    assert (
        finding.sentence
        == snapshot(
            {
                "lock": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while"
                    " sessions waited for a lock"
                ),
                "a checkpoint": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while a"
                    " checkpoint was syncing"
                ),
                "the kernel": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while the"
                    " kernel was writing dirty pages back"
                ),
                "vacuum": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while a"
                    " vacuum was running"
                ),
                "WAL's device": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while the"
                    " WAL's device did not answer"
                ),
                "no recorded cause": (
                    "throughput drops below a fifth of its median once, for up to 2 s, while no"
                    " recorded cause overlapped"
                ),
            }
        )[cause]
    )
    assert finding.share == pytest.approx(0.2, abs=0.01)
    drop = finding.evidence[-1]
    assert drop.window_ms == (4000, 6000)


@pytest.mark.parametrize("kind", ["sql", "checkpoint"])
def test_a_drop_that_an_event_overlaps_is_not_without_a_cause(tmp_path: Path, kind: str) -> None:
    idle = {"sessions": {CPU: 0.2}}
    load = replace(FLUSH, tps_by_second=STALLED, by_second={4: idle, 5: idle})
    run = written(tmp_path, load)
    with closing(sqlite3.connect(run.path)) as database, database:
        database.execute(
            "insert into event (at_ms, kind, label, duration_ms) values (4200, ?, 'vacuum t', 900)",
            (kind,),
        )
    ids = [run.slices()[-1].id]
    (drop,) = course_of(run, ids).drops
    assert drop.reason == "event"
    assert len(drop.beside) == 1
    finding = {each.id: each for each in diagnose(run, ids).findings}["stall"]
    assert finding.status == "found"
    assert drop.beside[0] in finding.sentence
    assert STALL_WORDS["unexplained"] not in finding.sentence
    evidence = [each.name for each in finding.evidence]
    assert not any(STALL_WORDS["unexplained"] in name for name in evidence)


def test_steady_load_has_no_stall(tmp_path: Path) -> None:
    uneven = [5000, 4000, 6000, 3000, 5000, 2000, 5000, 4500, 5200, 4800]
    load = replace(FLUSH, tps_by_second=uneven)
    assert diagnosed(tmp_path, load)["stall"].status == "cleared"


def test_saturated_generator_comes_before_everything(tmp_path: Path) -> None:
    load = replace(SMALL_POOL, generator_busy=0.97, lag_ms=3.0)
    findings = ranked(tmp_path, load)
    assert findings[0].id == "client-limited"
    assert findings[0].id == "client-limited"


def test_generator_beside_a_saturated_server_is_not_limited(tmp_path: Path) -> None:
    load = replace(CROWD, generator_busy=0.45, generator_queued=0.5, lag_ms=0.1, late_ms=8.0)
    found = diagnosed(tmp_path, load)
    assert found["client-limited"].status == "cleared"
    assert found["server-cpu"].status == "found"


def test_starved_generator_is_limited(tmp_path: Path) -> None:
    load = replace(CROWD, generator_busy=0.3, generator_queued=0.65, lag_ms=1.5, late_ms=20.0)
    assert diagnosed(tmp_path, load)["client-limited"].status == "found"


MB = 1 << 20
# A RAM disk for the WAL that the WAL just begins to fill, at 10 MB/s.
WAL_ON_TMPFS = {
    "holds": "wal",
    "filesystem": "tmpfs",
    "size_bytes": 256 * MB,
    "free_bytes": 240 * MB,
    "wal_dir_bytes": 16 * MB,
    "fills": 10 * MB,
    "wal_fills": 10 * MB,
}
DATA_ON_EXT4 = {
    "holds": "data",
    "filesystem": "ext4",
    "size_bytes": 100_000 * MB,
    "free_bytes": 50_000 * MB,
}
TEN_MB_OF_WAL = {"wal_bytes": 10.0 * MB, "wal_records": 50_000, "wal_fpi": 500}


def disks(tmp_path: Path, *space: dict[str, Any], **load: Any) -> Finding:
    return diagnosed(tmp_path, Load(wal=TEN_MB_OF_WAL, space=space, **load))["disk-filling"]


def test_a_wal_disk_that_max_wal_size_outgrows(tmp_path: Path) -> None:
    finding = disks(tmp_path, WAL_ON_TMPFS, DATA_ON_EXT4)
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "the disk of the WAL (tmpfs) will be full in about 14 s at this rate, and the server"
        " ends with a PANIC: the WAL has 256 MB of disk space, and may grow beyond max_wal_size ="
        " 1GB before a checkpoint removes any of it"
    )
    (proposal,) = finding.proposals
    assert proposal.change == Change(settings={"max_wal_size": "176MB"})
    assert finding.weight == 0


def test_a_wal_disk_that_is_nearly_full_and_steady(tmp_path: Path) -> None:
    """The WAL took what max_wal_size gives it, and is recycled there."""
    full = WAL_ON_TMPFS | {"free_bytes": 40 * MB, "wal_dir_bytes": 216 * MB}
    steady = full | {"fills": 0, "wal_fills": 0}
    finding = disks(tmp_path, steady, DATA_ON_EXT4, settings={"max_wal_size": "192MB"})
    assert finding.status == "cleared"
    assert finding.sentence == snapshot(
        "the disk of the WAL (tmpfs) is 84 % full, and no growth that would fill it was measured"
    )


def test_a_wal_that_grows_up_to_max_wal_size_is_no_danger(tmp_path: Path) -> None:
    finding = disks(tmp_path, WAL_ON_TMPFS, settings={"max_wal_size": "192MB"})
    assert finding.status == "cleared"


def test_checkpoints_by_time_keep_a_wal_small_whatever_max_wal_size_says(tmp_path: Path) -> None:
    finding = disks(tmp_path, WAL_ON_TMPFS, settings={"checkpoint_timeout": "10s"})
    assert finding.status == "cleared"


def test_a_wal_that_something_keeps(tmp_path: Path) -> None:
    kept = WAL_ON_TMPFS | {
        "size_bytes": 4000 * MB,
        "free_bytes": 1100 * MB,
        "wal_dir_bytes": 2900 * MB,
    }
    finding = disks(tmp_path, kept)
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "the disk of the WAL (tmpfs) will be full in about 1 min 40 s at this rate, and the"
        " server ends with a PANIC: the WAL has grown to 2.93 GB, beyond max_wal_size, so"
        " something keeps it: a replication slot, an archiver that fails, or wal_keep_size"
    )
    assert not finding.proposals


def test_data_that_grows(tmp_path: Path) -> None:
    growing = DATA_ON_EXT4 | {"fills": 50 * MB}
    finding = disks(tmp_path, growing)
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "the disk of the data (ext4) will be full in about 16 min 30 s at this rate: it is 50 %"
        " full and grows by 50 MB/s"
    )
    slow = disks(tmp_path, DATA_ON_EXT4 | {"fills": 5 * MB})
    assert slow.status == "cleared"
    assert slow.sentence == snapshot(
        "the disk of the data (ext4) is 50 % full, and at this rate it has room for 2 h 46 min"
    )


@pytest.mark.parametrize(("fills", "status"), [(MB // 4, "found"), (MB // 10, "cleared")])
def test_a_disk_that_is_nearly_full_is_not_about_to_fail_for_days(
    tmp_path: Path, fills: int, status: str
) -> None:
    nearly = DATA_ON_EXT4 | {"free_bytes": 4_000 * MB * 3, "size_bytes": 400_000 * MB}
    assert disks(tmp_path, nearly | {"fills": fills}).status == status


@pytest.mark.parametrize(("tables", "fails"), [(2 * MB, False), (40 * MB, True)])
def test_a_disk_that_others_fill_is_minor(tmp_path: Path, tables: int, fails: bool) -> None:
    size = {"public.t": {"size_bytes": float(tables)}}
    finding = disks(tmp_path, DATA_ON_EXT4 | {"fills": 50 * MB}, tables=size)
    assert finding.status == "found"
    assert finding.is_about_to_fail is fails
    assert (finding.rank is None) is not fails
    assert (
        finding.sentence
        == snapshot(
            {
                False: (
                    "the disk of the data (ext4) will be full in about 16 min 30 s at this rate:"
                    " it is 50 % full and grows by 50 MB/s, of which the load's tables are 2"
                    " MB/s: others fill it"
                ),
                True: (
                    "the disk of the data (ext4) will be full in about 16 min 30 s at this rate:"
                    " it is 50 % full and grows by 50 MB/s"
                ),
            }
        )[fails]
    )


LOGGED = DATA_ON_EXT4 | {"fills": 50 * MB, "log_bytes": 10 * MB}


@pytest.mark.parametrize(("log", "named"), [(45 * MB, True), (2 * MB, False)])
def test_a_disk_that_the_servers_log_fills(tmp_path: Path, log: int, named: bool) -> None:
    tables = {"public.t": {"size_bytes": float(2 * MB)}}
    settings = {"log_statement": "all", "debug_print_plan": "on", "log_duration": "off"}
    disk = LOGGED | {"log_fills": log}
    finding = disks(tmp_path, disk, tables=tables, settings=settings)
    figures = {each.name: each.value for each in finding.evidence}
    assert finding.id == "disk-filling"
    assert finding.status == "found"
    assert finding.is_about_to_fail is named
    assert figures["the log's growth"] == log
    assert ("log_statement = all, debug_print_plan = on" in finding.sentence) is named
    assert ("others fill it" in finding.sentence) is not named
    assert "log_duration" not in finding.sentence + finding.advice
    assert ("reset log_statement, debug_print_plan" in finding.advice) is named


def test_a_log_full_of_errors_is_said_to_be(tmp_path: Path) -> None:
    failed = error_row(sqlstate="42601", statement="selekt 1", count=100)
    finding = disks(tmp_path, LOGGED | {"log_fills": 45 * MB}, errors=[failed])
    assert finding.status == "found"
    assert "errors of the load's statements" in finding.sentence


def test_without_space_nothing_is_said_of_disks(tmp_path: Path) -> None:
    finding = disks(tmp_path)
    assert finding.status == "skipped"
    assert finding.sentence == snapshot(
        "not checked: the space on the server's disks was not recorded"
    )
