"""``stop``: all of the server's processes are paused for some seconds (SIGSTOP, then SIGCONT), as
when a virtual machine is paused or migrated. The load goes on meanwhile; nothing may be lost."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from pgdyno.drill._bounds import Bound
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, ProcessState, processes, remaining_processes
from pgdyno.drill.fault import Fault, no_requirements, unchanged_spec
from pgdyno.record import AckLedger, AckOutcome
from pgdyno.record.cut import Cut, Facts, Proof
from pgdyno.remedy import Circumstances
from pgdyno.server.local.programs import send

_PAUSE_S = (1.0, 2.5)
"""The shortest and longest pause."""
_STOPPED_S_MAX = 5.0
"""Time limit for a process that waits for a disk to stop."""
_POLL_S = 0.005
_AFTERWARDS_S = 0.3
_DRAIN_MS = 2_000


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    for number, rng, seed in drill.plan():
        drill.load_until_fault(rng)
        log = NewLog(drill.cluster)
        pause = _pause_server(drill, rng)
        drill.session.wait(_AFTERWARDS_S)
        alive = remaining_processes(drill.cluster, pause.pids)
        acks = drill.end_load(_DRAIN_MS)
        drill.cluster.stop()
        drill.look_for_kills()
        # The server never went down, so there is no recovery to measure.
        verified = replace(drill.verify(acks, pause.until_ns), recovery_s=None)
        proof = _proof(pause, acks, alive, log)
        facts = {"silence_ms_max": round(_longest_silence_ms(acks), 1)}
        yield drill.cut(number, seed, pause.since_ns, proof, verified, facts=facts)


@dataclass
class _Pause:
    """A pause of the server."""

    pids: list[int] = field(default_factory=list)
    states: str = ""
    """States of all processes at the beginning of the pause."""
    since_ns: int = 0
    until_ns: int = 0


def _pause_server(drill: LoadedServer, rng: random.Random) -> _Pause:
    """Stop the processes, wait, and continue them, also after an error."""
    seconds = rng.uniform(*_PAUSE_S)
    pause = _Pause(pids=[process.pid for process in processes(drill.cluster)])
    try:
        if not drill.options.sham:
            send(pause.pids, signal.SIGSTOP)
        pause.states = "".join(sorted(process.state for process in _stopped(drill)))
        pause.since_ns = time.monotonic_ns()
        drill.session.wait(seconds)
    finally:
        pause.until_ns = time.monotonic_ns()
        send(pause.pids, signal.SIGCONT)
    return pause


def _stopped(drill: LoadedServer) -> list[ProcessState]:
    """Return the processes when all have stopped, or after the time limit.

    A process that was just being forked is stopped as well.
    """
    deadline = time.monotonic() + _STOPPED_S_MAX
    while True:
        found = processes(drill.cluster)
        if drill.options.sham or all(process.state == "T" for process in found):
            return found
        if time.monotonic() > deadline:
            return found
        time.sleep(_POLL_S)


def _proof(pause: _Pause, acks: AckLedger, alive: list[int], log: NewLog) -> Proof:
    answered = _answers_during(acks, pause)
    stopped = bool(pause.states) and set(pause.states) == {"T"}
    seconds = (pause.until_ns - pause.since_ns) / 1e9
    crashed = log.line_with("terminated by signal")
    facts: Facts = {
        "processes": len(pause.pids),
        "states": pause.states,
        "still_s": round(seconds, 3),
        "answers_meanwhile": answered,
        "processes_ended": len(pause.pids) - len(alive),
        "log": [crashed] if crashed else [],
    }
    sentence = (
        f"{len(pause.pids)} server processes were paused for {seconds:.1f} s, in which"
        f" {answered} transactions were acknowledged; no client received an answer for"
        f" {_longest_silence_ms(acks) / 1000:.1f} s"
    )
    if not stopped:
        sentence = f"the server's processes did not stop: their states were {pause.states}"
    return Proof(happened=stopped and answered == 0 and not crashed, sentence=sentence, facts=facts)


def _answers_during(acks: AckLedger, pause: _Pause) -> int:
    """Return the number of commits that clients sent and saw acknowledged during the pause.

    An answer that was sent before it may be read at any time.
    """
    acked = acks.records[acks.records["outcome"] == AckOutcome.ACKED]
    meanwhile = (acked["commit_sent_ns"] > pause.since_ns) & (acked["ended_ns"] < pause.until_ns)
    return int(meanwhile.sum())


def _longest_silence_ms(acks: AckLedger) -> float:
    """Return the longest time in which no client received an answer."""
    import numpy as np

    ended_ns = np.sort(acks.records["ended_ns"][acks.records["outcome"] == AckOutcome.ACKED])
    return float(np.diff(ended_ns.astype(np.int64)).max() / 1e6) if len(ended_ns) > 1 else 0.0


def _bound(_server: Circumstances) -> Bound:
    return Bound(0.0, "a server that is paused and continued loses nothing")


FAULT = Fault(
    name="stop",
    summary="all of the server's processes paused for some seconds",
    adapt=unchanged_spec,
    check=no_requirements,
    cuts=_cuts,
    bound=_bound,
    ends_processes=False,
)
