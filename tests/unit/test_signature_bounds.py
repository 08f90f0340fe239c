"""Signatures on both sides of their thresholds, on made-up run files: what is a little more is
found, what is a little less is cleared."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, Load, diagnosed
from msgspec.structs import replace
from test_foreign_load import busy, finding, run_file
from test_signatures_locks import CASES
from test_signatures_reads import READ, SLOW, TEMP, pages
from test_signatures_writes import FLUSH, device


@pytest.mark.parametrize(("connect_ms", "status"), [(1.6, "found"), (1.4, "cleared")])
def test_connecting_takes_15_percent_of_the_response_time(
    tmp_path: Path, connect_ms: float, status: str
) -> None:
    each = Load(tps=400, connect_ms=connect_ms, service_ms=8.5, sessions={CPU: 1.5}, busy=0.7)
    said = diagnosed(tmp_path, each)["connection-per-transaction"]
    assert said.status == status, said.sentence


@pytest.mark.parametrize(("active", "status"), [(0.45, "found"), (0.43, "cleared")])
def test_others_have_a_tenth_of_the_working_sessions(
    tmp_path: Path, active: float, status: str
) -> None:
    with run_file(tmp_path, busy("shop", active=active, transactions=120)) as run:
        said, _ = finding(run)
    assert said.id == "other-load"
    assert said.status == status, said.sentence


@pytest.mark.parametrize(
    ("busy_ms", "written", "status"),
    [(610, 6.1e6, "found"), (590, 6.1e6, "cleared"), (610, 5.9e6, "cleared")],
    ids=["both", "less at work", "more of it WAL"],
)
def test_a_device_at_work_for_60_percent_with_half_of_it_for_data(
    tmp_path: Path, busy_ms: float, written: float, status: str
) -> None:
    load = replace(FLUSH, counters=device(busy_ms=busy_ms, write_bytes=written))
    said = diagnosed(tmp_path, load)["shared-device"]
    assert said.status == status, said.sentence


@pytest.mark.parametrize(
    ("buffers", "read_ms", "status"),
    [
        ("127MB", 5.0, "found"),
        ("128MB", 5.0, "cleared"),
        ("128MB", 0.09, "found"),
        ("128MB", 0.11, "cleared"),
        ("300MB", 0.09, "cleared"),
    ],
    ids=["below the default", "default", "kernel's cache", "device", "data fit"],
)
def test_buffers_are_small_below_the_default_or_if_the_kernel_has_the_pages(
    tmp_path: Path, buffers: str, read_ms: float, status: str
) -> None:
    load = replace(SLOW, settings={"shared_buffers": buffers}, counters=pages(1500, read_ms))
    said = diagnosed(tmp_path, load)
    assert said["small-shared-buffers"].status == status, said["small-shared-buffers"].sentence
    other = {"found": "cleared", "cleared": "found"}[status]
    assert said["data-reads"].status == other, said["data-reads"].sentence


@pytest.mark.parametrize(("reading", "status"), [(0.85, "found"), (0.75, "cleared")])
def test_a_tenth_of_the_response_time_is_spent_on_reads(
    tmp_path: Path, reading: float, status: str
) -> None:
    sessions = {CPU: 8.0 - reading, READ: reading}
    load = replace(SLOW, sessions=sessions, settings={"shared_buffers": "1MB"})
    said = diagnosed(tmp_path, load)["small-shared-buffers"]
    assert said.status == status, said.sentence


@pytest.mark.parametrize(("waiting", "status"), [(0.42, "found"), (0.38, "cleared")])
def test_temporary_files_take_5_percent_of_the_response_time(
    tmp_path: Path, waiting: float, status: str
) -> None:
    sessions = {CPU: 7.8 - waiting, ("IO", "BufFileRead"): waiting, IDLE: 0.2}
    said = diagnosed(tmp_path, replace(TEMP, sessions=sessions))["temp-files"]
    assert said.status == status, said.sentence


@pytest.mark.parametrize(
    ("at_work", "waiting", "status"),
    [(16.0, 2.5, "found"), (16.0, 2.3, "cleared"), (4.0, 0.85, "found"), (4.0, 0.75, "cleared")],
)
@pytest.mark.parametrize("kind", CASES)
def test_fifteen_percent_of_the_sessions_wait_in_a_queue_for_a_lock(
    tmp_path: Path, kind: str, at_work: float, waiting: float, status: str
) -> None:
    """And at least 0.8 of them, below which the share is chance."""
    queue, load = CASES[kind]
    event = next(event for event in load.sessions if event != CPU)
    sessions = {CPU: at_work - waiting, event: waiting}
    few = replace(load, clients=round(at_work), sessions=sessions, queues=[queue])
    said = diagnosed(tmp_path, few)[kind]
    assert said.status == status, said.sentence
