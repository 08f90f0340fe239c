"""Settings that cost, pages that sessions write, one device for all, unread indexes, dips."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, SECONDS, WAL_QUEUE, WAL_SYNC, Load, diagnosed, written
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import diagnose
from pgdyno.facts.setting_costs import LOG_CPU_S
from pgdyno.spec.change import Change

DATA_WRITE = ("IO", "DataFileWrite")
READS = Load(
    clients=4,
    tps=40_000,
    service_ms=0.1,
    sessions={CPU: 3.0, IDLE: 0.5},
    busy=1.0,
    queued=5.0,
    statements={"select 1": 40_000},
)
FLUSH = Load(
    clients=16,
    tps=1500,
    service_ms=10.6,
    sessions={CPU: 0.3, WAL_SYNC: 1.0, WAL_QUEUE: 13.5, IDLE: 1.0},
    busy=0.3,
    wal={"wal_bytes": 3e6, "wal_records": 30_000, "wal_sync": 190, "wal_sync_time_ms": 980},
)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"log_statement": "all"}, "log_statement"),
        ({"log_min_duration_statement": "0"}, "log_min_duration_statement"),
    ],
)
def test_logging_each_statement_costs(tmp_path: Path, settings: dict[str, str], name: str) -> None:
    finding = diagnosed(tmp_path, replace(READS, settings=settings))["costly-settings"]
    assert finding.sentence.startswith(f"{name} = {settings[name]} takes about 10 %")
    assert 0.5 < finding.share / (40_000 * LOG_CPU_S / 1.6) <= 1.0
    assert finding.proposals[0].remedy_id == "reset-setting"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"settings": {"log_min_duration_statement": "250ms"}},
        {"settings": {"log_statement": "all"}, "tps": 100, "statements": {"select 1": 100}},
    ],
)
def test_settings_that_cost_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert diagnosed(tmp_path, replace(READS, **changed))["costly-settings"].status == "skipped"


def test_pglz_and_tiny_buffers_cost_by_their_counters(tmp_path: Path) -> None:
    counted = {"wal_bytes": 4e7, "wal_records": 6e4, "wal_fpi": 3000, "wal_buffers_full": 600}
    settings = {"wal_compression": "pglz", "wal_buffers": "32kB"}
    finding = diagnosed(tmp_path, replace(READS, wal=counted, settings=settings))["costly-settings"]
    changes = [proposal.change for proposal in finding.proposals]
    assert changes == [
        Change(settings={"wal_compression": "off"}),
        Change(settings={"wal_buffers": "16MB"}),
    ]


def test_sessions_that_write_pages(tmp_path: Path) -> None:
    row = {"backend_type": "client backend", "object": "relation", "context": "normal"}
    load = replace(
        FLUSH,
        sessions={CPU: 1.0, DATA_WRITE: 10.0, ("Timeout", "RegisterSyncRequest"): 3.0, IDLE: 1.0},
        settings={"backend_flush_after": "256kB", "bgwriter_lru_maxpages": "0"},
        counters={
            "metric_io": [row | {"writes": 800, "fsyncs": 2}],
            "metric_bgwriter": [{"buffers_clean": 0}],
            "metric_checkpointer": [{"buffers_written": 200}],
        },
    )
    finding = diagnosed(tmp_path, load)["backend-writes"]
    assert finding.rank == 1
    assert finding.share > 0.7
    assert {p.remedy_id for p in finding.proposals} == {"reset-setting", "bgwriter"}


def test_backends_before_version_16(tmp_path: Path) -> None:
    load = replace(
        FLUSH,
        sessions={CPU: 1.0, DATA_WRITE: 10.0, IDLE: 1.0},
        counters={"metric_bgwriter": [{"buffers_backend": 300, "buffers_backend_fsync": 0}]},
    )
    assert diagnosed(tmp_path, load)["backend-writes"].share > 0.5


def test_flushes_are_no_writes_of_pages(tmp_path: Path) -> None:
    load = replace(FLUSH, counters={"metric_bgwriter": [{"buffers_backend": 10}]})
    assert diagnosed(tmp_path, load)["backend-writes"].status == "cleared"


def device(**given: Any) -> Mapping[str, Any]:
    row = {"device": "sda", "holds": "data,wal", "busy_ms": 900, "write_bytes": 1.5e7}
    return {"metric_disk": [row | given]}


def test_wal_and_data_on_one_busy_device(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, replace(FLUSH, counters=device()))
    finding = findings["shared-device"]
    assert finding.sentence == snapshot(
        "WAL and data are on one device, sda, 90 % busy: 80 % of what is written to it is not WAL"
    )
    assert finding.advice
    assert finding.rank is None
    assert findings["commit-flush"].rank == 1
    assert findings["commit-flush"].causes == ("shared-device",)


@pytest.mark.parametrize(
    "given", [{"holds": "wal"}, {"busy_ms": 300}, {"write_bytes": 4e6}, {"holds": "data"}]
)
def test_a_device_that_is_not_shared_or_not_busy(tmp_path: Path, given: dict[str, Any]) -> None:
    load = replace(FLUSH, counters=device(**given))
    assert diagnosed(tmp_path, load)["shared-device"].status == "cleared"


def index(name: str, **given: Any) -> dict[str, Any]:
    row = {"relation": "public.t", "index_name": name, "method": "btree", "idx_scan": 0}
    return row | {"enforces": 0, "has_expression": 0, "table_columns": "a"} | given


def test_indexes_that_nobody_reads(tmp_path: Path) -> None:
    tables = {"public.t": {"n_tup_ins": 500.0}}
    rows = [index("dead"), index("key", enforces=1), index("used", idx_scan=3)]
    finding = diagnosed(tmp_path, replace(FLUSH, tables=tables, counters={"metric_index": rows}))[
        "unused-indexes"
    ]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "1 index gets 500 entries per second and no scan has read any: dead"
    )
    assert finding.rank is None


def test_unread_indexes_of_resting_tables_cost_nothing(tmp_path: Path) -> None:
    tables = {"public.t": {"n_tup_upd": 500.0, "n_tup_hot_upd": 500.0}}
    load = replace(FLUSH, tables=tables, counters={"metric_index": [index("dead")]})
    assert diagnosed(tmp_path, load)["unused-indexes"].status == "cleared"
    assert diagnosed(tmp_path, FLUSH)["unused-indexes"].status == "skipped"


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"shared_buffers": "16GB", "huge_pages_status": "off"}, "found"),
        ({"shared_buffers": "16GB", "huge_pages_status": "on"}, "cleared"),
        ({"shared_buffers": "16GB", "huge_pages": "off"}, "found"),
        ({"shared_buffers": "16GB", "huge_pages": "try"}, "skipped"),
        ({"shared_buffers": "128MB", "huge_pages_status": "off"}, "cleared"),
        ({}, "skipped"),
    ],
)
def test_huge_pages(tmp_path: Path, settings: dict[str, str], status: str) -> None:
    findings = diagnosed(tmp_path, replace(FLUSH, settings=settings))
    assert findings["huge-pages"].status == status


def dipping(tmp_path: Path, checkpoint_at_s: float, **given: Any) -> str:
    """The status of checkpoint-dips where three of ten seconds have a third of the throughput."""
    rates = [1500.0, 1500, 500, 500, 500, 1500, 1500, 1500, 1500, 1500]
    load = replace(FLUSH, tps_by_second=rates, settings={"checkpoint_completion_target": "0.1"})
    with written(tmp_path, replace(load, checkpoint_s=(checkpoint_at_s, 3.0), **given)) as run:
        findings = {f.id: f for f in diagnose(run, [part.id for part in run.slices()]).findings}
    if findings["checkpoint-dips"].status == "found":
        (proposal,) = findings["checkpoint-dips"].proposals
        assert proposal.change == Change(settings={"checkpoint_completion_target": "0.9"})
    return findings["checkpoint-dips"].status


def test_dips_that_follow_a_checkpoint(tmp_path: Path) -> None:
    assert SECONDS == 10
    assert dipping(tmp_path, 2.0) == "found"


def test_dips_without_a_checkpoint(tmp_path: Path) -> None:
    assert dipping(tmp_path, 6.5) == "cleared"
