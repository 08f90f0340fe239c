"""Faults that end all of the server's processes at one moment: load, crash, proof, verification."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, ended_in_words, processes, remaining_processes
from pgdyno.record import AckLedger
from pgdyno.record.cut import Cut, Proof
from pgdyno.server import Cluster
from pgdyno.server.local.controldata import ControlData

INTERRUPTED = "system was interrupted"
"""Log message at the start of a server that was not shut down."""


def crash_cuts(
    drill: LoadedServer, crash_server: Callable[[Cluster], object], *, log_words: str = ""
) -> Iterator[Cut]:
    """Yield the drill's cuts, all alike; ``log_words`` are logged by the server as it goes down."""
    for number, rng, seed in drill.plan():
        crash, acks = crash_under_load(drill, rng, crash_server)
        verified = drill.verify(acks, crash.cut_ns)
        proof = crash.proof(log_words, came_up=verified.outcome != "refused")
        yield drill.cut(number, seed, crash.cut_ns, proof, verified)


def crash_under_load(
    drill: LoadedServer, rng: random.Random, crash_server: Callable[[Cluster], object]
) -> tuple[Crash, AckLedger]:
    """Run a load that ``crash_server`` ends, except in a sham; return the crash and the ledger."""
    drill.load_until_fault(rng)
    crash = Crash(drill.cluster)
    if not drill.options.sham:
        crash_server(drill.cluster)
    acks = drill.end_load()
    crash.inspect()
    return crash, acks


class Crash:
    """A crash: the state of the server before and after it."""

    def __init__(self, cluster: Cluster) -> None:
        """Create it just before the crash."""
        self.cluster = cluster
        self._log = NewLog(cluster)
        self._pids_before = [process.pid for process in processes(cluster)]
        self._pids_left: list[int] = []
        self._control = ControlData()
        self.cut_ns = time.monotonic_ns()

    def inspect(self) -> None:
        """Look for remaining processes after the crash, and shut down a server that still runs."""
        self._pids_left = remaining_processes(self.cluster, self._pids_before)
        self.cluster.stop()
        self._control = self.cluster.control_data()

    def proof(self, log_words: str = "", *, came_up: bool) -> Proof:
        """Return the proof; the server has been started again and has logged its state.

        A server that did not come up may have had no time to log it.
        """
        down = self._log.line_with(log_words) if log_words else ""
        up = self._log.line_with(INTERRUPTED)
        happened = bool(
            self._pids_before
            and not self._pids_left
            and self._control.in_production
            and (down or not log_words)
            and (up or not came_up)
        )
        facts = {
            "processes_before": len(self._pids_before),
            "processes_left": len(self._pids_left),
            "control_file": self._control.state,
            "log": [line for line in (down, up) if line],
        }
        return Proof(happened=happened, sentence=self._sentence(happened), facts=facts)

    def _sentence(self, happened: bool) -> str:
        seen = ended_in_words(self._pids_before, self._pids_left)
        if self._pids_left:
            return seen
        return f'{seen}{";" if happened else ", but"} the control file says "{self._control.state}"'
