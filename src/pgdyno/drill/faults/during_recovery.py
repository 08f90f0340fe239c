"""``during-recovery``: the server is killed, and killed again several times while it recovers.

The moments are chosen among what a server says as it recovers, and a little after it: a time
counted from its start would mostly miss a recovery of a tenth of a second.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgdyno.drill._crash import crash_under_load
from pgdyno.drill._drill import Drill
from pgdyno.drill._evidence import Said, processes
from pgdyno.drill.fault import Fault, as_it_is, nothing_to_check
from pgdyno.drill.model import Cut, Proof
from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.local.signals import send

_AGAIN = (2, 4)
"""The fewest and most kills during recovery."""
_MOMENTS = (
    "starting PostgreSQL",
    "system was interrupted",
    "redo starts at",
    "redo done at",
    "checkpoint starting: end-of-recovery",
)
_READY = "ready to accept connections"
_DELAY_MS_MAX = 30.0
_LOOK_S = 0.001


def _cuts(drill: Drill) -> Iterator[Cut]:
    for number, rng, seed in drill.plan():
        crash, acks = crash_under_load(drill, rng, Cluster.kill)
        again = [_crash_again(drill, rng) for _ in range(rng.randint(*_AGAIN))]
        verified = drill.verify(acks, crash.cut_ns)
        proof = _proof(crash.proof(came_up=verified.outcome != "refused"), again)
        yield drill.cut(number, seed, crash.cut_ns, proof, verified)


@dataclass(frozen=True)
class _Again:
    """One more kill."""

    after: str
    """What the server had said just before."""
    delay_ms: float
    killed: int
    """Processes that were ended."""
    accepting: bool
    """Whether it had begun to accept connections before it was killed, or never was."""
    control_file: str
    """"shut down" is possible: the checkpoint at the end of recovery writes it before connections
    are accepted."""

    @property
    def hit(self) -> bool:
        return self.killed > 0 and not self.accepting


def _crash_again(drill: Drill, rng: random.Random) -> _Again:
    """Start the dead server and kill it as it recovers; in a sham, let it be."""
    cluster = drill.cluster
    after, delay_ms = rng.choice(_MOMENTS), rng.uniform(0, _DELAY_MS_MAX)
    said = Said(cluster)
    killer = _Killer(cluster, said, after, delay_ms, armed=not drill.options.sham)
    with killer:
        try:
            cluster.start()
        except SetupError:
            if not killer.killed:
                raise
    accepting = bool(said.line_with(_READY))
    cluster.stop()
    return _Again(after, delay_ms, killer.killed, accepting, cluster.control_data().state)


class _Killer(threading.Thread):
    """Waits for the moment, on a thread of its own, for the start of a server is waited for."""

    def __init__(
        self, cluster: Cluster, said: Said, after: str, delay_ms: float, *, armed: bool
    ) -> None:
        super().__init__(name="kill-in-recovery", daemon=True)
        self._cluster, self._said, self._after = cluster, said, after
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
        """Kill when the words have been said and the delay has passed, unless it is over."""
        while not self._over.wait(_LOOK_S):
            text = self._said.text()
            if self._after in text or _READY in text:
                break
        else:
            return
        if self._over.wait(self._delay_s) or not self._armed:
            return
        while found := processes(self._cluster):
            self.killed = max(self.killed, len(found))
            send([process.pid for process in found], signal.SIGKILL)
            time.sleep(_LOOK_S)


def _proof(first: Proof, again: list[_Again]) -> Proof:
    hits = sum(one.hit for one in again)
    facts: dict[str, Any] = {
        **first.facts,
        "again": [
            {
                "after": one.after,
                "delay_ms": round(one.delay_ms, 1),
                "processes": one.killed,
                "accepting": one.accepting,
                "control_file": one.control_file,
            }
            for one in again
        ],
    }
    sentence = (
        f"killed under load, and {hits} more times before it accepted connections"
        if hits
        else "it was never killed before it accepted connections again"
    )
    return Proof(first.happened and hits > 0, sentence, facts)


FAULT = Fault(
    name="during-recovery",
    summary="SIGKILL under load, and again several times while the server recovers",
    adapt=as_it_is,
    check=nothing_to_check,
    cuts=_cuts,
)
