"""``stop``: all of the server's processes stand still for some seconds (SIGSTOP, then SIGCONT), as
when a virtual machine is paused or moved. The load goes on meanwhile; nothing may be lost."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pgdyno.drill._bounds import Bound
from pgdyno.drill._drill import Drill
from pgdyno.drill._evidence import Process, Said, processes, still_there
from pgdyno.drill.fault import Fault, as_it_is, nothing_to_check
from pgdyno.drill.model import Cut, Proof
from pgdyno.record import AckLedger, Outcome
from pgdyno.remedy import Circumstances
from pgdyno.server.local.signals import send

_STILL_S = (1.0, 2.5)
"""The shortest and longest standstill."""
_STOPPED_S_MAX = 5.0
"""How long a process that waits for a disk may take to stand still."""
_LOOK_S = 0.005
_ON_THE_WAY_MS = 50.0
"""An answer that was sent before the standstill may be read a little later."""
_AFTERWARDS_S = 0.3
_DRAIN_MS = 2_000


def _cuts(drill: Drill) -> Iterator[Cut]:
    for number, rng, seed in drill.plan():
        drill.load_until_fault(rng)
        said = Said(drill.cluster)
        still = _stand_still(drill, rng)
        drill.session.wait(_AFTERWARDS_S)
        alive = still_there(drill.cluster, still.pids)
        acks = drill.end_load(_DRAIN_MS)
        drill.cluster.stop()
        drill.look_for_kills()
        # It never went down, so that there was nothing to recover from.
        verified = replace(drill.verify(acks, still.until_ns), recovery_s=None)
        proof = _proof(still, acks, alive, said)
        facts = {"silence_ms_max": round(_longest_silence_ms(acks), 1)}
        yield drill.cut(number, seed, still.since_ns, proof, verified, facts=facts)


@dataclass
class _Still:
    """One standstill."""

    pids: list[int] = field(default_factory=list)
    states: str = ""
    """Of all processes, as the standstill began."""
    since_ns: int = 0
    until_ns: int = 0


def _stand_still(drill: Drill, rng: random.Random) -> _Still:
    """Stop the processes, wait, let them go on, whatever happens."""
    seconds = rng.uniform(*_STILL_S)
    still = _Still(pids=[process.pid for process in processes(drill.cluster)])
    try:
        if not drill.options.sham:
            send(still.pids, signal.SIGSTOP)
        still.states = "".join(sorted(process.state for process in _settled(drill)))
        still.since_ns = time.monotonic_ns()
        drill.session.wait(seconds)
    finally:
        still.until_ns = time.monotonic_ns()
        send(still.pids, signal.SIGCONT)
    return still


def _settled(drill: Drill) -> list[Process]:
    """The processes once all stand still, or when one has not after a long time.

    One that was just being forked is stopped too.
    """
    deadline = time.monotonic() + _STOPPED_S_MAX
    while True:
        found = processes(drill.cluster)
        if drill.options.sham or all(process.state == "T" for process in found):
            return found
        if time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_S)


def _proof(still: _Still, acks: AckLedger, alive: list[int], said: Said) -> Proof:
    answered = _answers_within(acks, still)
    stood = bool(still.states) and set(still.states) == {"T"}
    ended = len(still.pids) - len(alive)
    seconds = (still.until_ns - still.since_ns) / 1e9
    crashed = said.line_with("terminated by signal")
    facts: dict[str, Any] = {
        "processes": len(still.pids),
        "states": still.states,
        "still_s": round(seconds, 3),
        "answers_meanwhile": answered,
        "processes_ended": ended,
        "log": [crashed] if crashed else [],
    }
    sentence = (
        f"{len(still.pids)} server processes stood still for {seconds:.1f} s, in which"
        f" {answered} transactions were acknowledged; no client had an answer for"
        f" {_longest_silence_ms(acks) / 1000:.1f} s"
    )
    if not stood:
        sentence = f"the server's processes did not stand still: their states were {still.states}"
    return Proof(stood and answered == 0 and not crashed, sentence, facts)


def _answers_within(acks: AckLedger, still: _Still) -> int:
    """How many acknowledgements the clients read during the standstill."""
    ended_ns = acks.records["ended_ns"][acks.records["outcome"] == Outcome.ACKED]
    since_ns = still.since_ns + int(_ON_THE_WAY_MS * 1e6)
    return int(((ended_ns > since_ns) & (ended_ns < still.until_ns)).sum())


def _longest_silence_ms(acks: AckLedger) -> float:
    """The longest time in which no client had an answer."""
    import numpy as np

    ended_ns = np.sort(acks.records["ended_ns"][acks.records["outcome"] == Outcome.ACKED])
    return float(np.diff(ended_ns.astype(np.int64)).max() / 1e6) if len(ended_ns) > 1 else 0.0


def _bound(_server: Circumstances) -> Bound:
    return Bound(0.0, "a server that stands still and goes on loses nothing")


FAULT = Fault(
    name="stop",
    summary="all of the server's processes stand still for some seconds",
    adapt=as_it_is,
    check=nothing_to_check,
    cuts=_cuts,
    bound=_bound,
    ends_processes=False,
)
