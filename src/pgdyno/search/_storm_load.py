"""Runs one storm of connections: clients ramp from one to all of them and back to none, by the
shapes of arrival: the number of clients at each moment, and what happens to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.record import Distribution, RunFile, SliceKind
from pgdyno.record.facts import is_pooled
from pgdyno.results.storm import Cause, StormPoint
from pgdyno.server.sql_files import query
from pgdyno.spec import Change

LOOK_S = 0.1
WAITING_SHARE = 0.02
"""Share of the clients whose transaction may still wait or run when all have arrived."""
LEFT_S_MAX = 10.0
"""Longest wait for the server to end the sessions of the storm before."""
DRAIN_MS = 200
NOTICED_S = 0.02
SWINGS = 3
"""Times that a sawtooth rises."""
LOW_SHARE = 4
"""Part of the clients that a sawtooth keeps."""
LEAK_STEP_S = 0.1


class StormStage(Struct, frozen=True):
    """A part of a storm: so many clients, from one moment to the next."""

    clients: int
    ends_sessions: bool = False
    """True if all sessions are ended when it begins."""
    counts: bool = True
    """True if it is timed until all clients have arrived; else it only comes before."""
    seconds: float | None = None
    """It lasts so long; None: until all have arrived."""


class StormShape(Struct, frozen=True):
    """A shape of arrival."""

    title: str
    """In a sentence about ``N clients``."""
    stages: Callable[[int, float], list[StormStage]]
    """The stages for so many clients, and the time within which they are to arrive."""
    idle: bool = False
    """True if the clients that arrive only hold connections."""
    at_once_again: bool = False
    """True if a client that fails tries again at once."""


def _herd(clients: int, within_s: float) -> list[StormStage]:
    return [StormStage(clients)]


def _sawtooth(clients: int, within_s: float) -> list[StormStage]:
    low = max(clients // LOW_SHARE, 1)
    swing = [StormStage(clients), StormStage(low, counts=False, seconds=1.0)]
    return [StormStage(low, counts=False), *(SWINGS * swing)]


def _leak(clients: int, within_s: float) -> list[StormStage]:
    steps = max(1, min(clients, round(within_s / 2 / LEAK_STEP_S)))
    growing = [
        StormStage(clients * step // steps, counts=False, seconds=LEAK_STEP_S)
        for step in range(1, steps)
    ]
    return [*growing, StormStage(clients)]


def _retry(clients: int, within_s: float) -> list[StormStage]:
    return [StormStage(clients, counts=False), StormStage(clients, ends_sessions=True)]


SHAPES = {
    "herd": StormShape("connect at once", _herd),
    "sawtooth": StormShape(f"come and go, {SWINGS} times", _sawtooth),
    "leak": StormShape("hold idle connections, one after the other", _leak, idle=True),
    "retry": StormShape("lose their sessions and try again at once", _retry, at_once_again=True),
}


@dataclass
class Storms:
    """Storms of one shape on one server."""

    session: Session
    shape: str
    group: str
    within_s: float
    pooled: bool = field(init=False)

    def __post_init__(self) -> None:
        self.pooled = is_pooled(self.session.target.facts)

    def make(self, clients: int, change: Change, words: str) -> StormPoint:
        """Make a storm under a change, and wait until the server has ended its sessions."""
        session = self.session
        label = f"{clients:,} clients {SHAPES[self.shape].title}{words}"
        session.watcher.phase(label)
        session.prepare(Change(clients={self.group: 1}).over(change))
        session.recorder.add_event("step", label)
        pool_max = change.pool_max.get(self.group)
        with session.measured_from_start(SliceKind.STORM) as (slice_id, _):
            run = _Run(self, slice_id, pool_max)
            for stage in SHAPES[self.shape].stages(clients, self.within_s):
                if not run.stage(stage):
                    break
        session.interrupt_load(DRAIN_MS)
        self._wait_left()
        return _point(session.reader(), slice_id, clients, run)

    def _wait_left(self) -> None:
        """Wait until the server has ended the sessions; a pooler keeps some of them."""
        until_s = time.monotonic() + (1.0 if self.pooled else LEFT_S_MAX)
        with self.session.connect() as connection:
            while time.monotonic() < until_s:
                row = connection.execute(query("search", "sessions_left")).fetchone()
                if row is None or row[0] == 0:
                    return
                time.sleep(LOOK_S)


@dataclass
class _Run:
    """A storm under way."""

    storms: Storms
    slice_id: int
    pool_max: int | None
    took_s: list[float] = field(default_factory=list)
    """By stage that counts, the time until all had arrived."""
    connected: int = 0
    """Connections at the end."""
    why: str = ""
    """The reason why the storm was not survived."""

    def stage(self, stage: StormStage) -> bool:
        """Carry a stage out; return whether all its clients arrived in time."""
        session, storms = self.storms.session, self.storms
        began_s = time.monotonic()
        if stage.ends_sessions and not self._end_sessions():
            return False
        session.set_clients(storms.group, stage.clients)
        if stage.seconds is not None:
            session.wait(stage.seconds)
            return True
        while not self._all_arrived(stage.clients):
            if time.monotonic() - began_s >= storms.within_s:
                self.why = self._missing(stage.clients)
                return False
            session.wait(LOOK_S)
        if stage.counts and not SHAPES[storms.shape].idle:
            self.took_s.append(time.monotonic() - began_s)
        return True

    def _all_arrived(self, clients: int) -> bool:
        arrived = self.storms.session.arrived(self.slice_id)
        others = [
            each for each in self.storms.session.spec.clients if each.name != self.storms.group
        ]
        self.connected = max(arrived.connections - sum(each.connections_max for each in others), 0)
        busy = sum(each.count for each in others if not each.idle)
        if arrived.clients.get(self.storms.group, 0) < clients:
            return False
        enough = self.connected >= (1 if self.pool_max else clients)
        return enough and arrived.waiting <= busy + max(1, round(WAITING_SHARE * clients))

    def _missing(self, clients: int) -> str:
        within = f"after {self.storms.within_s:g} s"
        if self.pool_max or self.connected >= clients:
            return f"transactions still waited {within}"
        return f"{self.connected:,} of {clients:,} clients were connected {within}"

    def _end_sessions(self) -> bool:
        """End all sessions of the clients; return whether there were any."""
        until_s = time.monotonic() + LEFT_S_MAX
        with self.storms.session.connect() as connection:
            row = connection.execute(query("search", "end_sessions")).fetchone()
            if row is None or not row[0]:
                self.why = "no session of the clients was found to end"
                return False
            while time.monotonic() < until_s:
                there = connection.execute(query("search", "still_there"), (row[0],)).fetchone()
                if there is None or not there[0]:
                    break
                time.sleep(NOTICED_S)
        # The clients have noticed then, and are on their way back.
        time.sleep(NOTICED_S)
        return True


def _point(run: RunFile, slice_id: int, clients: int, ran: _Run) -> StormPoint:
    counts: dict[str, Cause] = {}
    for row in run.errors([slice_id]):
        known = counts.get(row.sqlstate)
        count = row.count + (known.count if known else 0)
        message = known.message if known else row.message
        counts[row.sqlstate] = Cause(sqlstate=row.sqlstate, count=count, message=message)
    connect = Distribution.of(run.histogram("total", [slice_id]))
    response = Distribution.of(run.histogram("response", [slice_id]))
    survived = not ran.why
    return StormPoint(
        clients=clients,
        survived=survived,
        steady_s=round(max(ran.took_s), 2) if survived and ran.took_s else None,
        connected=ran.connected,
        connect_ms_p50=_ms(connect.percentiles_ns[50.0]),
        connect_ms_p99=_ms(connect.percentiles_ns[99.0]),
        response_ms_p99=_ms(response.percentiles_ns[99.0]),
        errors=tuple(sorted(counts.values(), key=lambda each: -each.count)),
        why=ran.why,
    )


def _ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)
