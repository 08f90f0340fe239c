"""Waits for pages are told apart: a slow device, small shared_buffers, temporary files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, Load, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

READ = ("IO", "DataFileRead")
MB = 1 << 20


def pages(reads: float, each_ms: float, **more: float) -> dict[str, Any]:
    row = {"blks_read": reads, "blks_hit": 3 * reads, "blk_read_time_ms": reads * each_ms}
    return {"metric_database": [row | more]}


# Eight clients that read 1,500 pages a second, 5 ms each; 300 MB of data, 128 MB of buffers.
SLOW = Load(
    clients=8,
    tps=1000,
    service_ms=8,
    sessions={CPU: 0.3, READ: 7.3, IDLE: 0.2},
    busy=0.3,
    settings={"shared_buffers": "128MB", "work_mem": "64kB"},
    server_facts={"database_bytes": 300 * MB},
    host_facts={"memory_bytes": 8 << 30},
    counters=pages(1500, 5.0),
)
TEMP = replace(
    SLOW,
    sessions={CPU: 0.5, ("IO", "BufFileRead"): 3.0, ("IO", "BuffileWrite"): 4.0, IDLE: 0.2},
    counters=pages(10, 0.01, temp_files=500.0, temp_bytes=500 * 600e3),
)


def test_slow_reads_are_the_device_s(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, SLOW)
    finding = findings["data-reads"]
    assert finding.rank == 1
    assert finding.sentence == snapshot(
        "91 % of the response time is spent waiting for pages: 1,500 are read per second, 5 ms each"
    )
    (proposal,) = finding.proposals
    assert proposal.change.settings == {"shared_buffers": "512MB"}
    assert findings["small-shared-buffers"].status == "cleared"


def test_small_buffers_are_told_by_their_size(tmp_path: Path) -> None:
    small = replace(SLOW, settings={"shared_buffers": "1MB"}, counters=pages(5000, 1.2))
    first = ranked(tmp_path, small)[0]
    assert first.id == "small-shared-buffers"
    assert first.sentence == snapshot(
        "shared_buffers of 1MB are too small for 300 MB of tables and indexes: 5,000 pages are"
        " read per second, 1.2 ms each"
    )
    assert first.proposals[0].specific
    assert first.proposals[0].predicted_ratio > 2


def test_reads_from_the_kernel_s_cache_are_the_buffers_fault(tmp_path: Path) -> None:
    cached = replace(SLOW, counters=pages(150_000, 0.02))
    assert ranked(tmp_path, cached)[0].id == "small-shared-buffers"


def test_reads_from_the_kernel_s_cache_take_the_cores_and_not_the_waits(tmp_path: Path) -> None:
    copied = replace(
        SLOW,
        tps=6000,
        service_ms=1.3,
        sessions={CPU: 7.6, READ: 0.3},
        busy=0.98,
        queued=8.0,
        settings={"shared_buffers": "1MB"},
        counters=pages(90_000, 0.0035),
    )
    finding = diagnosed(tmp_path, copied)["small-shared-buffers"]
    assert finding.severity == "limit"
    (proposal,) = finding.proposals
    assert 1.1 < proposal.predicted_ratio < 2.5
    few = replace(copied, counters=pages(9_000, 0.0035), sessions={CPU: 7.9, READ: 0.03})
    assert diagnosed(tmp_path, few)["small-shared-buffers"].status == "cleared"


def scanned(load: Load, size_bytes: int, pages_per_s: int) -> Load:
    """Have sequential scans of one table, of this size, read so many pages."""

    def counted(at_s: int) -> list[dict[str, Any]]:
        scans = {"seq_scan": 20 * at_s, "seq_tup_read": 2_000_000 * at_s}
        sized = {"relation": "public.item", "size_bytes": size_bytes}
        return [scans | sized | {"heap_blks_read": pages_per_s * at_s}]

    return replace(load, rows={"metric_table": counted})


@pytest.mark.parametrize(
    ("buffers", "table_mb", "wanted"),
    [("16MB", 176, "1GB"), ("128MB", 100, "512MB"), ("16MB", 20, "128MB"), ("16MB", 3000, None)],
)
def test_a_quarter_of_the_buffers_holds_a_table_that_is_scanned(
    tmp_path: Path, buffers: str, table_mb: int, wanted: str | None
) -> None:
    small = replace(SLOW, settings={"shared_buffers": buffers}, counters=pages(90_000, 0.03))
    load = scanned(small, table_mb * MB, pages_per_s=90_000)
    finding = diagnosed(tmp_path, load)["small-shared-buffers"]
    assert finding.status == "found"
    sizes = [each.change.settings["shared_buffers"] for each in finding.proposals]
    assert sizes == ([] if wanted is None else [wanted])


def test_reads_beside_the_scans_of_a_table_that_does_not_fit_are_saved(tmp_path: Path) -> None:
    small = replace(SLOW, settings={"shared_buffers": "16MB"}, counters=pages(90_000, 0.03))
    ratios = []
    for part in (0, 45_000):
        load = scanned(small, 1000 * MB, pages_per_s=part)
        (proposal,) = diagnosed(tmp_path, load)["small-shared-buffers"].proposals
        ratios.append(proposal.predicted_ratio)
    assert ratios[0] > 1.5 * ratios[1] > 1.5


def test_data_that_fit_are_read_from_the_device(tmp_path: Path) -> None:
    fits = replace(SLOW, settings={"shared_buffers": "64MB"}, server_facts={"database_bytes": MB})
    assert ranked(tmp_path, fits)[0].id == "data-reads"


def test_more_than_the_memory_is_not_proposed(tmp_path: Path) -> None:
    load = replace(SLOW, host_facts={"memory_bytes": 256 * MB})
    finding = diagnosed(tmp_path, load)["data-reads"]
    assert not finding.proposals
    assert finding.advice


def test_without_timing_the_samples_tell_the_time_of_a_read(tmp_path: Path) -> None:
    untimed = replace(SLOW, counters=pages(1500, 0.0))
    evidence = {e.name: e.value for e in diagnosed(tmp_path, untimed)["data-reads"].evidence}
    assert evidence["time of a read"] == pytest.approx(1000 * 7.3 / 1500, rel=0.01)


def test_a_few_reads_are_cleared(tmp_path: Path) -> None:
    load = replace(SLOW, sessions={CPU: 7.0, READ: 0.2, IDLE: 0.5})
    findings = diagnosed(tmp_path, load)
    assert findings["data-reads"].status == findings["small-shared-buffers"].status == "cleared"


def test_reads_that_were_not_recorded_are_not_checked(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, replace(SLOW, counters={}))["data-reads"].status == "skipped"


def test_temporary_files_ask_for_work_mem(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, TEMP)
    finding = findings["temp-files"]
    assert finding.rank == 1
    assert finding.sentence == snapshot(
        "87 % of the response time is spent on temporary files: 500 are written per second, 586"
        " kB each"
    )
    (proposal,) = finding.proposals
    assert proposal.change.settings == {"work_mem": "2MB"}
    assert findings["data-reads"].status == "cleared"


def test_work_mem_stays_within_the_memory(tmp_path: Path) -> None:
    load = replace(TEMP, host_facts={"memory_bytes": 32 * MB})
    finding = diagnosed(tmp_path, load)["temp-files"]
    assert not finding.proposals
    assert finding.advice


def test_reads_of_tables_are_no_temporary_files(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, SLOW)["temp-files"].status == "cleared"
