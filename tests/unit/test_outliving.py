"""Processes that outlive pgdyno: what they read of it, and that they notice its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from patience import wait_until
from pgdyno.watchdogs import Guardian

HELPER = """
import os, sys
from pgdyno.watchdogs import ignore_stop_signals, lines_until_end
ignore_stop_signals()
with open(sys.argv[1], "w", buffering=1) as file:
    parent = os.getppid()
    print("up", file=file)
    for line in lines_until_end(parent):
        print(line.decode(), file=file)
    print("end", file=file)
"""
PARENT = """
import os, signal, subprocess, sys, time
readable, writable = os.pipe()
said, keeper_pid, helper = sys.argv[1:]
subprocess.Popen([sys.executable, "-c", helper, said], stdin=readable, start_new_session=True)
keeper = subprocess.Popen(["sleep", "600"], pass_fds=(writable,))
open(keeper_pid, "w").write(str(keeper.pid))
while not os.path.exists(said) or not open(said).read():
    time.sleep(0.01)
os.write(writable, b"first\\nsecond\\nincomp")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_that_was_written_is_read_and_the_end_is_noticed_although_the_pipe_is_open(
    tmp_path: Path,
) -> None:
    said, keeper = tmp_path / "said", tmp_path / "keeper"
    words = [sys.executable, "-c", PARENT, str(said), str(keeper), HELPER]
    try:
        assert subprocess.run(words).returncode == -signal.SIGKILL
        wait_until(lambda: said.read_text().endswith("end\n"), "its end is noticed")
    finally:
        os.kill(int(keeper.read_text()), signal.SIGKILL)
    assert said.read_text().split() == ["up", "first", "second", "end"]


def test_one_that_does_not_start_answers_nothing() -> None:
    guardian = Guardian("pgdyno.no_such_module", keeps=())
    assert guardian.answer() == ""
    guardian.detach()
    guardian.wait()
