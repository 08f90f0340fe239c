"""``during-recovery``: the server is killed, and killed again several times while it recovers.

Each later kill follows a log message of the recovery after a short delay: a kill at a fixed time
after the start would mostly miss a recovery of a tenth of a second.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator

from msgspec import Struct

from pgdyno.drill._crash import crash_under_load
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, processes
from pgdyno.drill.fault import Fault, no_requirements, unchanged_spec
from pgdyno.errors import SetupError
from pgdyno.record.cut import Cut, Facts, Proof
from pgdyno.server import Cluster
from pgdyno.server.local.programs import send

_LATER_KILLS = (2, 4)
"""Minimum and maximum number of kills during recovery."""
_KILLS_MAX = 12
"""Maximum number where none is in time."""
_MESSAGES = (
    "starting PostgreSQL",
    "system was interrupted",
    "redo starts at",
    "redo done at",
    "checkpoint starting: end-of-recovery",
)
_READY = "ready to accept connections"
_DELAY_MS_MAX = 30.0
_POLL_S = 0.001


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    for number, rng, seed in drill.plan():
        crash, acks = crash_under_load(drill, rng, Cluster.kill)
        later = _kills_in_recovery(drill, rng)
        verified = drill.verify(acks, crash.cut_ns)
        proof = _proof(crash.proof(came_up=verified.outcome != "refused"), later)
        yield drill.cut(number, seed, crash.cut_ns, proof, verified)


def _kills_in_recovery(drill: LoadedServer, rng: random.Random) -> list[_LaterKill]:
    """Kill as often as planned, and on until one kill was in time: on a busy machine many come
    after the recovery."""
    later = [_kill_in_recovery(drill, rng) for _ in range(rng.randint(*_LATER_KILLS))]
    while (
        not drill.options.sham and not any(each.hit for each in later) and len(later) < _KILLS_MAX
    ):
        later.append(_kill_in_recovery(drill, rng))
    return later


class _LaterKill(Struct, frozen=True):
    """A kill during recovery."""

    after: str
    """The log message that it followed."""
    delay_ms: float
    killed: int
    """Number of killed processes."""
    accepting: bool
    """True if the server accepted connections before it was killed, or was never killed."""
    control_file: str
    """State in the control file; "shut down" is possible, because the checkpoint at the end of
    recovery writes it before connections are accepted."""

    @property
    def hit(self) -> bool:
        """True if the server was killed before it accepted connections."""
        return self.killed > 0 and not self.accepting


def _kill_in_recovery(drill: LoadedServer, rng: random.Random) -> _LaterKill:
    """Start the dead server and kill it as it recovers; in a sham, let it recover."""
    cluster = drill.cluster
    after, delay_ms = rng.choice(_MESSAGES), rng.uniform(0, _DELAY_MS_MAX)
    log = NewLog(cluster)
    killer = _Killer(cluster, log, after, delay_ms, armed=not drill.options.sham)
    with killer:
        try:
            cluster.start()
        except SetupError:
            if not killer.killed:
                raise
    accepting = bool(log.line_with(_READY))
    cluster.stop()
    return _LaterKill(after, delay_ms, killer.killed, accepting, cluster.control_data().state)


class _Killer(threading.Thread):
    """A thread that waits for the moment and kills, while the main thread waits for the start."""

    def __init__(
        self, cluster: Cluster, log: NewLog, after: str, delay_ms: float, *, armed: bool
    ) -> None:
        super().__init__(name="kill-in-recovery", daemon=True)
        self._cluster, self._log, self._after = cluster, log, after
        self._delay_s = delay_ms / 1000
        self._armed = armed
        self._over = threading.Event()
        self.killed = 0

    def __enter__(self) -> _Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Kill after the log message and the delay, unless the start has ended before."""
        while not self._over.wait(_POLL_S):
            text = self._log.text()
            if self._after in text or _READY in text:
                break
        else:
            return
        if self._over.wait(self._delay_s) or not self._armed:
            return
        while found := processes(self._cluster):
            self.killed = max(self.killed, len(found))
            send([process.pid for process in found], signal.SIGKILL)
            time.sleep(_POLL_S)


def _proof(first: Proof, later: list[_LaterKill]) -> Proof:
    hits = sum(one.hit for one in later)
    facts: Facts = {
        **first.facts,
        "again": [
            {
                "after": one.after,
                "delay_ms": round(one.delay_ms, 1),
                "processes": one.killed,
                "accepting": one.accepting,
                "control_file": one.control_file,
            }
            for one in later
        ],
    }
    sentence = (
        f"killed under load, and {hits} more times before it accepted connections"
        if hits
        else "it was never killed again before it accepted connections"
    )
    return Proof(happened=first.happened and hits > 0, sentence=sentence, facts=facts)


FAULT = Fault(
    name="during-recovery",
    summary="SIGKILL under load, and again several times while the server recovers",
    adapt=unchanged_spec,
    check=no_requirements,
    cuts=_cuts,
)
