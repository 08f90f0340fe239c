"""Drills that are stopped in one phase after the other: nothing stays mounted, attached, running or
lying about, and what was recorded can be read. Ctrl-C comes as from a terminal, to the whole group,
and again and again while pgdyno puts things away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from patience import wait_until
from pgdyno.disk.mounting import loops_below, mounts_below
from pgdyno.record import RunFile
from remains import processes_in

PGDYNO = ["-m", "pgdyno"]
# A price list begins with its gains, which are not what is stopped here.
PRICE_WITHOUT_GAINS = (
    "import pgdyno.price.pricing as it\n"
    "it.begin_gains = lambda *_: None\n"
    "it.measure_gains = lambda *_: ()\n"
    "from pgdyno.__main__ import main\n"
    "main()\n"
)


@dataclass
class Stopped:
    """A pgdyno that has been stopped, and what it left."""

    status: int
    err: str
    run_path: Path
    left: list[object]


def _as_in_the_foreground() -> None:
    """The tests themselves may run in the background, where Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _there(home: Path, tmp: Path) -> set[object]:
    """Whatever belongs to pgdyno below its folder, and what it has for a while elsewhere."""
    return {
        *processes_in(home),
        *mounts_below(home),
        *loops_below(home),
        *(home / "clusters").glob("*-*"),
        *tmp.iterdir(),
    }


@pytest.fixture
def stop(_pgdyno_home: None, tmp_path: Path) -> Iterator[Callable[..., Stopped]]:
    """Start pgdyno, strike when it says the word, and say what is left."""
    home, tmp = Path(os.environ["PGDYNO_HOME"]), tmp_path / "tmp"
    tmp.mkdir()
    runs: list[subprocess.Popen[str]] = []

    def strike(at: str, number: signal.Signals, program: list[str], *words: str) -> Stopped:
        before, run_path = _there(home, tmp), tmp_path / "run.db"
        run = subprocess.Popen(
            [sys.executable, *program, *words, "-o", str(run_path)],
            env={**os.environ, "TMPDIR": str(tmp)},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_as_in_the_foreground,
        )
        runs.append(run)
        assert run.stderr is not None
        said = ""
        while at not in said:
            line = run.stderr.readline()
            assert line, f"it ended:\n{said}"
            said += line

        def ended() -> bool:
            if run.poll() is None:
                os.killpg(
                    run.pid, number
                )  # A child that has ended is there until it is waited for.
            return run.returncode is not None

        wait_until(ended, "the process has ended")
        _, err = run.communicate()
        # The process that removes disks ends by itself when it sees that pgdyno has. What is left
        # of a killed one is for a sweep.
        if number != signal.SIGKILL:
            wait_until(lambda: not _there(home, tmp) - before, lambda: _there(home, tmp) - before)
        left = _there(home, tmp) - before
        return Stopped(run.returncode, err, run_path, sorted(left, key=str))

    yield strike
    for run in runs:
        if run.poll() is None:
            run.kill()
            run.communicate()


SMALL = ("-s", "1", "-c", "2")
POWER = ("--data-disk", "blackout:size=600MB")


@pytest.mark.parametrize(
    ("fault", "options", "at", "number"),
    [
        ("kill", (), "starting PostgreSQL", signal.SIGTERM),
        ("disk-full", (), "drilling", signal.SIGINT),
        pytest.param(
            *("wal-device", ("--standby", "on"), "cut 1", signal.SIGINT), marks=pytest.mark.long
        ),
        ("power", POWER, "creating witness tables", signal.SIGTERM),
        ("power", POWER, "cut 1", signal.SIGINT),
    ],
)
def test_a_drill(
    stop: Callable[..., Stopped],
    fault: str,
    options: tuple[str, ...],
    at: str,
    number: signal.Signals,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount the disks of drills")
    if fault == "power" and not (Path("/dev/fuse").exists() and Path("/dev/loop-control").exists()):
        pytest.skip("power cuts need FUSE and loop devices")
    load = ("--fault", fault, "--cuts", "9", "--load", "300ms")
    stopped = stop(at, number, PGDYNO, "drill", *load, *SMALL, *options)
    assert stopped.left == [], stopped.err
    assert stopped.status == 128 + number
    assert stopped.err.count("error:") == 1
    assert f"error: interrupted by {number.name}\n" in stopped.err
    assert "Traceback" not in stopped.err
    if stopped.run_path.exists():  # It is there once the server is.
        with RunFile(stopped.run_path) as run:
            assert run.run.status == "interrupted"
            assert run.ledger().balanced
            if at == "cut 1":
                assert run.run.result["summary"]["happened"] >= 1


@pytest.mark.long
def test_a_drill_within_a_price_list(stop: Callable[..., Stopped]) -> None:
    candidate = ("--candidate", "synchronous_commit=off")
    words = ("price", *SMALL, "--ladder", "all-on", *candidate, "--cuts", "50")
    stopped = stop("cut 1", signal.SIGINT, ["-c", PRICE_WITHOUT_GAINS], *words)
    assert stopped.left == [], stopped.err
    assert stopped.status == 130
    assert stopped.err.endswith(
        "error: interrupted by SIGINT\n\n"
        f"hint: the recorded data is kept: pgdyno show {stopped.run_path}\n"
    )
    with RunFile(stopped.run_path) as run:
        (drill,) = run.drills()
        assert run.cuts(drill.id)


def test_a_price_list_killed_in_a_drill_keeps_its_cuts_and_is_swept(
    stop: Callable[..., Stopped],
) -> None:
    words = ("price", *SMALL, "--ladder", "all-on", "--cuts", "50")
    stopped = stop("cut 2", signal.SIGKILL, ["-c", PRICE_WITHOUT_GAINS], *words)
    home = Path(os.environ["PGDYNO_HOME"])
    subprocess.run([sys.executable, *PGDYNO, "server", "sweep"], check=True, capture_output=True)
    tmp = stopped.run_path.parent / "tmp"
    wait_until(lambda: _there(home, tmp).isdisjoint(stopped.left), "what was left is swept")
    with RunFile(stopped.run_path) as run:
        assert run.run.status == "interrupted"
        (drill,) = run.drills()
        assert [cut.number for cut in run.cuts(drill.id)][:1] == [1]
