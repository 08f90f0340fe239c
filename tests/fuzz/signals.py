"""Sends signals to commands at random moments, kill -9 among them.

Whatever moment it is: one message, the status of the signal or of the command's end, a run file
that can be read, and no server left.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from programs import begun, ended, own_home
from rounds import pgdyno, play

COMMANDS = (
    (["run", "tpcb-like", "-c", "4", "-T", "2", "-q", "-o", "run.db"], 5.0),
    (["run", "select-only", "-c", "2", "-t", "100", "-q", "-o", "run.db"], 4.0),
    (["compare", "select-only", "-c", "2", "--set", "work_mem=8MB", "--slice", "200ms",
      "--pairs", "6", "-q", "-o", "run.db"], 7.0),
    (["drill", "--fault", "kill", "--cuts", "1", "-q", "-o", "run.db"], 6.0),
    (["server", "list"], 1.0),
    (["spec", "schema"], 1.0),
)  # fmt: skip
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
GONE_S = 120.0
"""Time for a server whose pgdyno was killed to be gone; a bound for machines that are slow."""


def one(rng: random.Random) -> str | None:
    """One command, one to three signals."""
    folder = HOME / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    words, lasts_s = rng.choice(COMMANDS)
    sent = [rng.choice(SIGNALS) for _ in range(rng.choice([1, 1, 2, 3]))]
    process = begun(folder, *words)
    for number in sent:
        time.sleep(rng.random() * lasts_s / len(sent))
        process.send_signal(number)
    said, told = ended(process), f"{' '.join(words)}, {[each.name for each in sent]}"
    if said is None:
        return f"{told}: does not end"
    killed = said.status == -signal.SIGKILL and signal.SIGKILL in sent
    # Before the first line of pgdyno, the interpreter deals with it in its own way.
    by_signal = said.status in {-each for each in sent} or "KeyboardInterrupt" in said.err
    early = by_signal and "pgdyno" not in said.err
    if not (killed or early) and (complaint := said.complaint):
        return f"{told}: {complaint}"
    recorded = folder / "run.db"
    if recorded.exists() and recorded.stat().st_size:
        shown = pgdyno("show", str(recorded))
        if shown.complaint or (shown.status and "damaged" not in shown.err):
            return f"{told}: {shown.complaint or shown}"
    return f"{told}: {left} is left" if (left := _left()) else None


def _left() -> str:
    """A server of ours that stays."""
    ends_s = time.monotonic() + GONE_S
    while servers := [line for line in _command_lines() if str(HOME / "clusters") in line]:
        if time.monotonic() > ends_s:
            return servers[0]
        time.sleep(0.2)
    return ""


def _command_lines() -> list[str]:
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return lines


if __name__ == "__main__":
    HOME: Path = own_home()
    play("signals", one)
