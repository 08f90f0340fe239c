"""Why a measurement is not trusted: other programs, from /proc and run files; gaps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, WAL_SYNC, Load, diagnosed, ranked, written
from inline_snapshot import snapshot
from msgspec.structs import replace
from record_samples import at, new_recorder

from pgdyno.probe import _process_table, _programs
from pgdyno.probe._host import TICK_MS
from pgdyno.probe.gaps import Gaps
from pgdyno.record import RunFile
from pgdyno.trial.trust import doubts

# Two cores, 0.4 of them the server's and 0.1 the generator's; commits wait for a disk.
QUIET = Load(
    busy=0.3,
    server=0.4 / 0.6,
    programs={("ours", "pgdyno"): 0.1, ("kernel", "kworker/0:1"): 0.08, ("other", "sshd"): 0.02},
)
BUSY_LOOPS = replace(
    QUIET,
    busy=0.9,
    server=0.4 / 1.8,
    programs={("ours", "pgdyno"): 0.1, ("kernel", "jbd2"): 0.1, ("other", "stress"): 1.2},
)


def test_nobody_is_blamed_where_the_server_pgdyno_and_the_kernel_use_it(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, QUIET)["other-programs"]
    assert found.status == "cleared"
    assert found.sentence == snapshot("other programs use 1 % of 2 cores")
    with written(tmp_path, QUIET) as run:
        assert doubts(run) == []


def test_busy_loops_are_named_come_first_and_spoil_the_measurement(tmp_path: Path) -> None:
    waiting = replace(BUSY_LOOPS, sessions={CPU: 1.0, WAL_SYNC: 3.0})
    findings = ranked(tmp_path, waiting)
    assert findings[0].id == "other-programs"
    assert findings[0].sentence == snapshot(
        "60 % of the server's 2 cores are busy with other programs: stress (4 processes, 1.2"
        " cores); stop them, or move them to another machine"
    )
    with written(tmp_path, waiting) as run:
        assert len(doubts(run)) == 1


def test_a_tenth_of_the_cores_is_told_and_not_yet_distrusted(tmp_path: Path) -> None:
    some = replace(
        QUIET,
        busy=0.45,
        server=0.4 / 0.9,
        programs={("ours", "pgdyno"): 0.1, ("other", "rsync"): 0.3},
    )
    findings = ranked(tmp_path, some)
    assert findings[0].id == "other-programs", "nothing else is found"
    with written(tmp_path, some) as run:
        assert doubts(run) == []


def test_what_cannot_be_seen_is_told_as_that(tmp_path: Path) -> None:
    hidden = replace(BUSY_LOOPS, programs={("ours", "pgdyno"): 0.1})
    finding = diagnosed(tmp_path, hidden)["other-programs"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "65 % of the server's 2 cores are busy with other programs: others that are not visible"
        " from here (1.3 cores); stop them, or move them to another machine"
    )


CORES = {("machine", "(busy)"): 1.9, ("machine", "(all)"): 2.0}
"""Two cores, as read with the programs."""
SEEN = {"sees_all_processes": True}


def test_what_nobody_can_be_found_for_is_no_other_program(tmp_path: Path) -> None:
    """Where all processes are seen, what they do not add up to is the kernel's way to count."""
    programs = {("ours", "pgdyno"): 0.1, ("other", "(others)"): 0.04, **CORES}
    load = replace(BUSY_LOOPS, programs=programs, host_facts=SEEN)
    finding = diagnosed(tmp_path, load)["other-programs"]
    assert finding.status == "cleared"
    assert finding.sentence == snapshot(
        "other programs use 2 % of 2 cores; 1.4 cores were busy, and no process was seen to use"
        " them"
    )
    with written(tmp_path, load) as run:
        assert doubts(run) == []


def test_programs_that_are_seen_are_named_where_all_are_seen(tmp_path: Path) -> None:
    programs = {("ours", "pgdyno"): 0.1, ("other", "stress"): 1.2, **CORES}
    finding = diagnosed(tmp_path, replace(BUSY_LOOPS, programs=programs, host_facts=SEEN))
    assert finding["other-programs"].status == "found"
    assert "programs: stress (4 processes, 1.2 cores); stop" in finding["other-programs"].sentence


def test_time_that_the_hypervisor_takes_is_no_programs(tmp_path: Path) -> None:
    by_second = {edge: {"host": {"cpu_steal_ms": 1500.0 * edge}} for edge in range(11)}
    stolen = replace(QUIET, by_second=by_second)
    assert diagnosed(tmp_path, stolen)["other-programs"].status == "cleared"


def test_a_pooler_on_the_loads_way_is_not_another_program(tmp_path: Path) -> None:
    pooled = replace(BUSY_LOOPS, programs={("ours", "pgdyno"): 0.1, ("other", "pgbouncer"): 1.3})
    assert diagnosed(tmp_path, pooled)["other-programs"].status == "found"
    through = replace(pooled, server_facts={"entrance_uri": "postgresql://u@h:6432/d"})
    assert diagnosed(tmp_path, through)["other-programs"].status == "cleared"


def test_cores_that_the_server_may_not_use_are_everybodys(tmp_path: Path) -> None:
    """Two of eight cores are the server's; what others use of the rest takes nothing away."""
    elsewhere = replace(
        QUIET,
        cores=2,
        host_facts={"cores_host": 8},
        busy=0.5,
        server=0.4,
        programs={("ours", "pgdyno"): 0.1, ("other", "stress"): 3.0},
    )
    assert diagnosed(tmp_path, elsewhere)["other-programs"].status == "cleared"


def test_cores_that_others_share_with_a_confined_server_are_busy(tmp_path: Path) -> None:
    """One of two cores is the server's; what it does not get of that has somebody else."""
    beside = Load(
        clients=8, cores=1, host_facts={"cores_host": 2}, tps=9000, service_ms=0.88, busy=1.0,
        sessions={CPU: 7.5, IDLE: 0.2}, queued=9.0, server=0.6,
        programs={("ours", "pgdyno"): 0.1, ("other", "stress"): 1.3},
    )  # fmt: skip
    findings = diagnosed(tmp_path, beside)
    assert findings["other-programs"].sentence == snapshot(
        "30 % of the server's 1 core is busy with other programs; on the machine's 2 cores run"
        " stress (4 processes, 1.3 cores); stop them, or move them to another machine"
    )
    assert findings["server-cpu"].sentence == snapshot(
        "1 core is 100 % busy, 0.6 of it with PostgreSQL and 0.1 with the load generator"
    )


def test_others_use_no_more_than_what_is_busy_without_the_server_and_pgdyno(
    tmp_path: Path,
) -> None:
    """Rows of programs may add up to more, where children were counted twice."""
    impossible = replace(BUSY_LOOPS, programs={("ours", "pgdyno"): 0.1, ("other", "land"): 4.2})
    sentence = diagnosed(tmp_path, impossible)["other-programs"].sentence
    assert sentence == snapshot(
        "65 % of the server's 2 cores are busy with other programs: land (4 processes, 1.3"
        " cores); stop them, or move them to another machine"
    )


@pytest.mark.parametrize("left_out", ["programs", "busy"])
def test_without_the_figures_it_is_not_checked(tmp_path: Path, left_out: str) -> None:
    load = replace(QUIET, programs=None) if left_out == "programs" else replace(QUIET, busy=None)
    finding = diagnosed(tmp_path, load)["other-programs"]
    assert finding.status == "skipped"
    assert finding.sentence == snapshot(
        "not checked: the CPU usage of the server's machine by process was not recorded for at"
        " least a second"
    )
    with written(tmp_path, load) as run:
        assert doubts(run) == []


def stat_line(
    pid: int, name: bytes, parent: int, *, own: int, collected: int, flags: int = 0
) -> bytes:
    words = [b"S", parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, own, 0, collected, 0, 20, 0, 1, 0, 7]
    tail = b" ".join(word if isinstance(word, bytes) else b"%d" % word for word in words)
    return b"%d (%s) %s 1 1\n" % (pid, name, tail)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_process_table, "PROC", tmp_path)
    (tmp_path / "stat").write_text("cpu 0 0 0 0 0 0 0 0\ncpu0 0\n")
    return tmp_path


def put(proc: Path, pid: int, name: bytes, parent: int, **used: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_bytes(
        stat_line(pid, name, parent, **({"own": 0, "collected": 0} | used))
    )


class Meter:
    """The meter of programs, with the processes read anew for each sample."""

    def __init__(self) -> None:
        self._table, self._programs = _process_table.ProcessTable(), _programs.Programs()

    def sample(self, postmaster_pid: int | None) -> list[dict[str, object]]:
        """Rows of programs with rows of their own."""
        rows = self._programs.sample(self._table.read(postmaster_pid), postmaster_pid)
        return [row for row in rows if not str(row["program"]).startswith("(")]


def used_ticks(rows: list[dict[str, object]]) -> dict[object, float]:
    """By program; the last row of each."""
    return {row["program"]: float(str(row["cpu_ms"])) / TICK_MS for row in rows}


def test_whose_a_process_is_follows_from_the_tree(proc: Path) -> None:
    me = os.getpid()
    tree = [
        (1, b"init", 0, 0),
        (2, b"kthreadd", 0, 0x200000),
        (30, b"kworker/u8:1", 2, 0x200000),
        (me, b"pgdyno", 1, 0),
        (40, b"guardian", me, 0),
        (50, b"postgres", 40, 0),
        (51, b"postgres", 50, 0),
        (60, b"gzip", 51, 0),
        (70, b"bad\xff\n", 1, 0),
    ]
    meter = Meter()
    for used in (0, 500):
        for pid, name, parent, flags in tree:
            put(proc, pid, name, parent, own=used, flags=flags)
        rows = meter.sample(50)
    whose = {row["program"]: row["whose"] for row in rows}
    assert whose == {
        "init": "other",
        "kthreadd": "kernel",
        "kworker/u8:1": "kernel",
        "pgdyno": "ours",
        "guardian": "ours",
        "gzip": "server",
        "bad\N{REPLACEMENT CHARACTER}?": "other",
    }, "the server's own processes are counted by their roles"


def test_what_ended_belongs_to_whoever_collected_it_once(proc: Path) -> None:
    meter = Meter()
    put(proc, 10, b"make", 1, own=0, collected=1000)
    put(proc, 11, b"sh", 10, own=100, collected=0)
    put(proc, 12, b"cc", 11, own=900)
    meter.sample(None)
    for gone in ("11", "12"):
        (proc / gone / "stat").unlink()
        (proc / gone).rmdir()
    # make collected sh, which had collected cc: 1,000 of them were known, 250 are new.
    put(proc, 10, b"make", 1, own=50, collected=2250)
    assert used_ticks(meter.sample(None)) == {"make": 300.0}


def test_a_child_that_ends_while_processes_are_read_is_counted_once(proc: Path) -> None:
    meter = Meter()
    put(proc, 10, b"make", 1, collected=0)
    put(proc, 12, b"cc", 10, own=900)
    meter.sample(None)
    # make was read before it collected cc, which was gone when its turn came.
    (proc / "12" / "stat").unlink()
    (proc / "12").rmdir()
    meter.sample(None)
    put(proc, 10, b"make", 1, collected=950)
    assert used_ticks(meter.sample(None)) == {"make": 50.0}


def test_a_process_number_that_is_used_again_is_a_new_process(proc: Path) -> None:
    meter = Meter()
    put(proc, 10, b"old", 1, own=5000)
    meter.sample(None)
    line = stat_line(10, b"new", 1, own=40, collected=0).replace(b" 7 1 1", b" 8 1 1")
    (proc / "10" / "stat").write_bytes(line)
    assert used_ticks(meter.sample(None)) == {"new": 40.0}


def test_programs_with_little_each_are_one_row_until_they_have_more(proc: Path) -> None:
    table, meter = _process_table.ProcessTable(), _programs.Programs()

    def rise_ms(*used: int) -> float:
        """The rise of all programs of others together, as ``RunFile.delta`` has it."""
        for pid, ticks in enumerate(used, 10):
            put(proc, pid, b"p%d" % pid, 1, own=ticks)
        for row in meter.sample(table.read(None), None):
            if row["whose"] == "other":
                rows.setdefault(row["program"], []).append(float(str(row["cpu_ms"])))
        return sum(figures[-1] - figures[0] for figures in rows.values())

    rows: dict[object, list[float]] = {}
    assert rise_ms(0, 0) == 0.0
    assert rise_ms(3, 4) == 7 * TICK_MS
    assert set(rows) == {"(others)"}
    assert rise_ms(50, 4) == 54 * TICK_MS
    assert set(rows) == {"(others)", "p10"}
    assert rise_ms(60, 9) == 69 * TICK_MS


def test_what_was_used_before_a_slice_is_not_its(proc: Path) -> None:
    table, meter = _process_table.ProcessTable(), _programs.Programs()
    put(proc, 10, b"loop", 1, own=0)
    meter.sample(table.read(None), None)
    put(proc, 10, b"loop", 1, own=500)
    rows = meter.sample(table.read(None), None, begins=True)
    assert [row["cpu_ms"] for row in rows if row["program"] == "loop"] == [500 * TICK_MS]


def test_a_real_child_of_pgdyno_is_its_own() -> None:
    meter = Meter()
    meter.sample(None)
    loop = [sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.3: pass"]
    subprocess.run(loop, check=True)
    rows = meter.sample(None)
    ours = [row for row in rows if row["whose"] == "ours"]
    assert sum(float(row["cpu_ms"]) for row in ours) >= 200


@pytest.mark.parametrize(("away_ms", "trusted"), [(900.0, True), (3000.0, False)])
def test_a_probe_without_answers_for_a_tenth_of_the_time_is_not_trusted(
    tmp_path: Path, away_ms: float, trusted: bool
) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    slice_id = recorder.open_slice("run", ns=at(recorder, 0))
    detail = {"probe": "waits", "away_ms": away_ms, "reason": "garbage"}
    recorder.add_event("probe", "waits back", detail, ns=at(recorder, 5))
    recorder.close_slice(slice_id, ns=at(recorder, 10))
    recorder.finish("done")
    with RunFile(tmp_path / "run.db") as run:
        said = "wait events were not sampled for 30 % of the measured time: garbage"
        assert doubts(run) == ([] if trusted else [said])


def test_a_probes_reason_is_the_first_line_of_libpqs_text(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    gaps = Gaps(recorder)
    recorder.open_slice("run", ns=at(recorder, 0))
    gaps.lost("server", "server closed the connection unexpectedly.\n\tThis probably means …")
    gaps.close()
    (said,) = gaps.sentences()
    assert said == snapshot(
        "the server's views were not read for 0.0 s: server closed the connection unexpectedly"
    )
