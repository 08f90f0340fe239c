"""Readers of /proc and of control groups: on texts as kernels write them, and on this machine."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pgdyno.probe import _control_groups, _disks, _facts, _host, _process_table, _processes
from pgdyno.record.fileformat import CLIENT_BACKEND, EXITED, columns

DISKSTATS = """\
   7       0 loop0 1 0 2 3 0 0 0 0 0 4 5 0 0 0 0 0 0
 259       0 nvme0n1 100 5 2000 30 200 6 4000 70 1 80 90 0 0 0 0 11 12
   8       1 old 1 0 2 3 4 0 6 7 0 4 5
"""
MOUNTINFO = r"""
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 27 0:40 / /data rw - tmpfs none rw,size=1g
32 27 259:1 / /data/pg\040wal rw,noatime - xfs /dev/nvme0n1p1 rw
33 27 0:41 / /data rw - btrfs /dev/sdb rw
"""


def needed(table: str) -> set[str]:
    return set(columns()[table]) - {"at_ms", "slice_id"}


def test_host_rows_have_the_columns_of_the_run_file() -> None:
    assert _host.sample_host().keys() == needed("metric_host")


def test_cpu_time_adds_up() -> None:
    text = "cpu  100 20 30 400 50 6 7 8 0 0\nctxt 12\nprocs_running 3\nprocs_blocked 1\n"
    row = _host.parse_stat(text)
    ticks = sum(value for name, value in row.items() if name.startswith("cpu_")) / _host.TICK_MS
    assert ticks == 100 + 20 + 30 + 400 + 50 + 6 + 7 + 8
    assert row["cpu_system_ms"] == (30 + 6 + 7) * _host.TICK_MS
    assert (row["context_switches"], row["procs_running"], row["procs_blocked"]) == (12, 3, 1)


def test_pressure() -> None:
    text = "some avg10=0.00 avg60=0.10 avg300=0.05 total=33\nfull avg10=0 avg60=0 avg300=0 total=4"
    assert _host.parse_pressure(text) == {"some": 33, "full": 4}


def test_diskstats_with_and_without_flushes() -> None:
    devices = _disks.parse_diskstats(DISKSTATS)
    assert devices["nvme0n1"] == {
        "reads": 100,
        "read_bytes": 2000 * 512,
        "read_ms": 30,
        "writes": 200,
        "write_bytes": 4000 * 512,
        "write_ms": 70,
        "in_flight": 1,
        "busy_ms": 80,
        "queue_ms": 90,
        "flushes": 11,
        "flush_ms": 12,
    }
    assert devices["old"]["flushes"] is None
    assert devices["nvme0n1"].keys() | {"device", "holds"} == needed("metric_disk")


def test_disks_without_a_medium_show_only_if_they_hold_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "diskstats").write_text(DISKSTATS)
    monkeypatch.setattr(_disks, "PROC", tmp_path)
    plain = {row["device"]: row["holds"] for row in _disks.sample_disks({})}
    assert plain == {"nvme0n1": "", "old": ""}
    held = {row["device"]: row["holds"] for row in _disks.sample_disks({"loop0": "wal"})}
    assert held == {"loop0": "wal", "nvme0n1": "", "old": ""}


def test_mounts_with_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTINFO)
    monkeypatch.setattr(_disks, "PROC", tmp_path)

    def source(path: str) -> str:
        mount = _disks.mount_of(Path(path))
        return mount.source if mount else ""

    assert source("/elsewhere") == "/dev/vda"
    assert source("/data/pg wal/x") == "/dev/nvme0n1p1"
    assert source("/data/base") == "/dev/sdb", "the later mount covers the earlier"


def test_a_directory_that_cannot_be_seen_holds_nothing(tmp_path: Path) -> None:
    assert _disks.holders(tmp_path / "missing") == {}
    assert _disks.holders(None) == {}


def test_a_process_whose_name_has_brackets() -> None:
    text = b"12 (a) b (c)) S 3 " + b" ".join([b"0"] * 9) + b" 5 6 7 8 20 0 1 0 99 1 1"
    process = _process_table.parse_process(text)
    assert (process.parent, process.started, process.command) == (3, 99, "a) b (c)")
    assert process.user_ms == 5 * _host.TICK_MS
    assert process.children_system_ms == 8 * _host.TICK_MS


def test_the_schedule_is_that_of_the_kernel_or_not_known(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("1187180000 99780000 2\n")
    ran_ms, queued_ms = _process_table.scheduled_ms(tmp_path)
    if _process_table.schedule_is_counted():
        assert (ran_ms, queued_ms) == (pytest.approx(1187.18), pytest.approx(99.78))
    else:
        assert math.isnan(ran_ms)
        assert math.isnan(queued_ms)
    assert all(map(math.isnan, _process_table.scheduled_ms(tmp_path / "missing")))


def test_cores_work_when_they_are_not_idle_wait_or_are_stolen() -> None:
    stat = "cpu  100 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nctxt 12\n"
    without_work = (400 + 50 + 8) * _host.TICK_MS
    assert _process_table.parse_cores(stat) == (2, without_work, (6 + 7) * _host.TICK_MS)


def test_the_time_of_cores_and_of_processes_is_of_the_same_moment() -> None:
    table = _process_table.ProcessTable()
    before = table.read(None)
    burn()
    after = table.read(None)
    me = os.getpid()
    burnt_ms = after.processes[me].collected_ms - before.processes[me].collected_ms
    assert 0 < burnt_ms <= after.busy_ms - before.busy_ms + 4 * _host.TICK_MS
    assert after.busy_ms - before.busy_ms <= after.cores_ms - before.cores_ms


FIFTY = """
exec 3<&0
for number in $(seq 50); do sh -c 'echo; read line <&3' & done
wait
echo collected
read line
"""
"""A shell with as many children, each of which works for a moment and ends with a line."""


def sampled(server: _processes.ServerProcesses, roles: dict[int, str]) -> list[dict[str, Any]]:
    reading = _process_table.ProcessTable().read(server.postmaster_pid)
    return server.sample(reading.processes, roles)


def cpu_ms(rows: list[dict[str, Any]], *but: str) -> float:
    return sum(row["cpu_user_ms"] + row["cpu_system_ms"] for row in rows if row["role"] not in but)


def test_what_many_use_in_less_than_a_tick_each_is_counted() -> None:
    """Of the kernel's ticks of 10 ms, none of them has a whole one."""
    if not _process_table.schedule_is_counted():
        pytest.skip("this kernel does not count what the scheduler does")
    parent = subprocess.Popen(
        ["sh", "-c", FIFTY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    for _ in range(50):
        parent.stdout.readline()
    server = _processes.ServerProcesses(parent.pid)
    alive_ms = cpu_ms(sampled(server, {}), _processes.POSTMASTER)
    parent.stdin.write(50 * "\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == "collected\n"
    ended_ms = cpu_ms(sampled(server, {}), _processes.POSTMASTER)
    parent.communicate()
    assert ended_ms / 2 < alive_ms <= ended_ms + 2 * _host.TICK_MS


def burn() -> None:
    """A child of this process that uses CPU and ends, between two samples."""
    subprocess.run([sys.executable, "-S", "-c", "sum(range(10_000_000))"], check=True)


def test_processes_that_came_and_went_are_accounted_for() -> None:
    server = _processes.ServerProcesses(os.getpid())
    before = {row["role"]: row for row in sampled(server, {})}
    burn()
    after = {row["role"]: row for row in sampled(server, {})}
    assert before[EXITED]["cpu_user_ms"] == 0
    assert after[EXITED]["cpu_user_ms"] > 0
    assert after[_processes.POSTMASTER]["count"] == 1


def test_roles_never_fall_and_follow_a_restart() -> None:
    server = _processes.ServerProcesses(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "sum(range(5_000_000)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    totals = []
    for roles in ({}, {child.pid: "autovacuum worker"}, {}):
        rows = sampled(server, roles)
        totals.append({row["role"]: row["cpu_user_ms"] for row in rows})
    child.communicate(b"\n")
    server.follow(os.getppid())
    server.follow(os.getpid())
    totals.append({row["role"]: row["cpu_user_ms"] for row in sampled(server, {})})
    assert totals[0][CLIENT_BACKEND] > 0
    for earlier, later in pairwise(totals):
        assert all(later[role] >= used for role, used in earlier.items())


def test_a_postmaster_that_is_gone_gives_no_rows() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    assert sampled(_processes.ServerProcesses(child.pid), {}) == []
    assert sampled(_processes.ServerProcesses(), {}) == []


def test_process_rows_have_the_columns_of_the_run_file() -> None:
    own = _processes.own_row()
    assert own.keys() == needed("metric_process")
    assert own["role"] == "pgdyno"
    assert own["cpu_user_ms"] > 0


def test_another_process_is_not_taken_for_a_postmaster() -> None:
    assert _processes.find_postmaster(os.getpid(), 0.0) is None
    assert not math.isnan(_processes.own_row()["cpu_user_ms"])


@pytest.fixture
def group_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc in which this process is in group /a/b of version 2, with the tree beside it."""
    proc, tree = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (tree / "a" / "b").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    (proc / "self" / "mountinfo").write_text(f"1 1 0:1 / {tree} rw - cgroup2 cgroup2 rw\n")
    monkeypatch.setattr(_control_groups, "PROC", proc)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    return tree


def test_the_tightest_group_limits_cores_and_memory(group_tree: Path) -> None:
    assert _facts.cores_of() == 8
    assert _facts.memory_limit_bytes() is None
    (group_tree / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (group_tree / "a" / "cpu.max").write_text("150000 100000\n")
    (group_tree / "a" / "b" / "memory.max").write_text("max\n")
    (group_tree / "a" / "memory.max").write_text("1000000\n")
    assert _facts.cores_of() == 1.5
    assert _facts.memory_limit_bytes() == 1_000_000


def test_a_group_that_is_only_known_outside_falls_back_to_the_root(group_tree: Path) -> None:
    (_control_groups.PROC / "self" / "cgroup").write_text("0::/kubepods/pod7\n")
    (group_tree / "cpu.max").write_text("200000 100000\n")
    assert _facts.cores_of() == 2


def test_version_1_groups(group_tree: Path) -> None:
    (_control_groups.PROC / "self" / "cgroup").write_text("4:memory:/a\n3:cpu,cpuacct:/a/b\n")
    (_control_groups.PROC / "self" / "mountinfo").write_text(
        f"1 1 0:1 / {group_tree} rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"2 1 0:2 / {group_tree} rw - cgroup cgroup rw,memory\n"
    )
    (group_tree / "a" / "b" / "cpu.cfs_quota_us").write_text("300000\n")
    (group_tree / "a" / "b" / "cpu.cfs_period_us").write_text("100000\n")
    (group_tree / "cpu.cfs_quota_us").write_text("-1\n")
    (group_tree / "cpu.cfs_period_us").write_text("100000\n")
    (group_tree / "a" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert _facts.cores_of() == 3
    assert _facts.memory_limit_bytes() is None
    (group_tree / "memory.limit_in_bytes").write_text("5000\n")
    assert _facts.memory_limit_bytes() == 5000


def test_facts_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "pg_wal").mkdir()
    found = _facts.host_facts(tmp_path)
    assert 0 < found["cores"] <= found["cores_host"]
    assert 0 < found["memory_bytes"] <= found["memory_host_bytes"]
    assert found["filesystem"].keys() == {"data", "wal"}
    assert found["filesystem"]["data"]["mount"]
    assert _facts.host_facts(None)["filesystem"] == {}


def test_throttling_is_read_from_every_group_with_a_quota(group_tree: Path) -> None:
    (_control_groups.PROC / "77").mkdir()
    (_control_groups.PROC / "77" / "cgroup").write_text("0::/kubepods/pod7\n")
    pod = group_tree / "kubepods" / "pod7"
    pod.mkdir(parents=True, exist_ok=True)
    (pod / "cpu.stat").write_text("usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 9\n")
    (pod.parent / "cpu.stat").write_text("usage_usec 5\nnr_periods 0\nnr_throttled 0\n")
    throttling = _control_groups.Throttling()
    throttling.follow(77)
    (row,) = throttling.sample()
    assert (row["nr_periods"], row["nr_throttled"], row["throttled_us"]) == (10, 4, 9)
    assert str(row["control_group"]).endswith("/kubepods/pod7")
