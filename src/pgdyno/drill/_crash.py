"""Faults that end all of the server's processes at one moment: load, crash, proof, verification."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from pgdyno.drill._drill import Drill
from pgdyno.drill._evidence import Said, processes, still_there
from pgdyno.drill.model import Cut, Proof
from pgdyno.record import AckLedger
from pgdyno.server import Cluster
from pgdyno.server.local.controldata import ControlData

INTERRUPTED = "system was interrupted"
"""What a server says at its start when it was not shut down."""


def crash_cuts(
    drill: Drill, strike: Callable[[Cluster], object], *, says: str = ""
) -> Iterator[Cut]:
    """A cut for each of the plan's, all alike; ``says`` is what the server logs as it goes down."""
    for number, rng, seed in drill.plan():
        crash, acks = crash_under_load(drill, rng, strike)
        verified = drill.verify(acks, crash.cut_ns)
        proof = crash.proof(says, came_up=verified.outcome != "refused")
        yield drill.cut(number, seed, crash.cut_ns, proof, verified)


def crash_under_load(
    drill: Drill, rng: random.Random, strike: Callable[[Cluster], object]
) -> tuple[Crash, AckLedger]:
    """One load that ``strike`` ends, but in a sham; and what its clients had acknowledged."""
    drill.load_until_fault(rng)
    crash = Crash(drill.cluster)
    if not drill.options.sham:
        strike(drill.cluster)
    acks = drill.end_load()
    crash.look()
    return crash, acks


class Crash:
    """One crash: what was there before it and what is there after it."""

    def __init__(self, cluster: Cluster) -> None:
        """To be made just before the crash."""
        self.cluster = cluster
        self._said = Said(cluster)
        self._before = [process.pid for process in processes(cluster)]
        self._left: list[int] = []
        self._control = ControlData()
        self.cut_ns = time.monotonic_ns()

    def look(self) -> None:
        """To be called after the crash. What still runs is then shut down in order: what is
        verified later is what a start finds."""
        self._left = still_there(self.cluster, self._before)
        self.cluster.stop()
        self._control = self.cluster.control_data()

    def proof(self, says: str = "", *, came_up: bool) -> Proof:
        """To be called once the server was started again, for it says how it found itself.

        One that did not come up may have had no time for that.
        """
        down, up = self._said.line_with(says) if says else "", self._said.line_with(INTERRUPTED)
        happened = bool(
            self._before
            and not self._left
            and self._control.in_production
            and (down or not says)
            and (up or not came_up)
        )
        facts = {
            "processes_before": len(self._before),
            "processes_left": len(self._left),
            "control_file": self._control.state,
            "log": [line for line in (down, up) if line],
        }
        return Proof(happened, self._sentence(happened), facts)

    def _sentence(self, happened: bool) -> str:
        there = f"{len(self._before)} server processes"
        if happened:
            return f'{there} were there and are gone; the control file says "{self._control.state}"'
        if self._left:
            return f"of {there}, {len(self._left)} were still there"
        return f'{there} are gone, but the control file says "{self._control.state}"'
