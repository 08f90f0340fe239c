"""The probes of one run: two connections with a thread each, started and stopped together.

One thread samples the server's views and the host once a second, the other the wait events ten
times a second. Neither delays the run: a late tick is omitted and not made up for, and a server
that is away is waited for without messages. A third thread closes the connections to a server that
does not answer. After any error a probe starts again after a pause; the gap is recorded (see
``gaps``) and reported at the end. For a load whose database server is not known, the machine that
pgdyno runs on is all that is sampled (:class:`HostProbes`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import PgdynoError
from pgdyno.probe._budget import LookBudget
from pgdyno.probe._checkpoints import CheckpointWatch
from pgdyno.probe._host_sampler import HostSampler
from pgdyno.probe._link import STUCK_S, Connectable, Link
from pgdyno.probe._server_sampler import ServerSampler
from pgdyno.probe._statement_sampler import StatementSampler
from pgdyno.probe._wait_sampler import WaitSampler
from pgdyno.probe.gaps import Gaps, MissingProbes, Probe
from pgdyno.probe.space import SpaceSampler
from pgdyno.record import Recorder

SAMPLE_EVERY_S = 1.0
TICK_EVERY_S = 0.1
PAUSE_S_MAX = {"samples": 10.0, "ticks": 2.0}
"""Longest pause between two looks where the server has so much to show that each takes long."""
MESSAGES_S = 0.0001
"""CPU time of the server for a look beside the query itself: to wake up, to receive and to send."""
GUARD_EVERY_S = 1.0
PAUSE_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between a probe's failure and its next attempt."""
PATIENCE_S = STUCK_S + 2 * GUARD_EVERY_S
"""Time to wait for a thread; one that waits for the server is released within it."""
NO_DATABASE = "no database server was named"


class Pace(Struct, frozen=True):
    """Frequency of the probes' looks, and whose load they look at."""

    sample_every_s: float = SAMPLE_EVERY_S
    tick_every_s: float = TICK_EVERY_S
    sample_share_max: float | None = None
    """Part of the time that reading the views may take: with many sessions it takes longer, and is
    less frequent then."""
    tick_share_max: float | None = None
    """The same of looks at the waits."""
    of_others: bool = False
    """True if the load is that of others, which the server counts."""


USUAL = Pace()


class Probes:
    """All probes on one server, writing to one run file.

    ``pace`` is how often they look. ``local`` is true if the server runs on this machine; without
    ``postmaster_pid`` the server's processes are searched for; ``data_dir`` gives the disks of data
    and WAL. ``warn`` is called by a thread of the probes with warnings to show at once;
    ``max_wal_size_bytes`` is the server's max_wal_size. With ``statements``, pg_stat_statements is
    read too.
    """

    def __init__(
        self,
        conninfo: Connectable,
        recorder: Recorder,
        *,
        local: bool,
        postmaster_pid: int | None = None,
        data_dir: Path | None = None,
        max_wal_size_bytes: int | None = None,
        warn: Callable[[str], None] = lambda _: None,
        pace: Pace = USUAL,
        statements: bool = False,
    ) -> None:
        self._recorder = recorder
        self._pace = pace
        self._samples_spent = LookBudget(pace.sample_share_max, PAUSE_S_MAX["samples"])
        self._ticks_spent = LookBudget(pace.tick_share_max, PAUSE_S_MAX["ticks"])
        self._missing = MissingProbes(recorder)
        self._warn = warn
        self._gaps = Gaps(recorder)
        self._failures: dict[Probe, int] = {}
        watch = CheckpointWatch()
        self._link = Link(conninfo, self._missing)
        self._wait_link = Link(conninfo, self._missing)
        self._server = ServerSampler(
            self._link,
            recorder,
            self._missing,
            watch,
            self._gaps,
            own_transactions=self._own_transactions if pace.of_others else None,
        )
        self._statements = (
            StatementSampler(self._link, recorder, self._missing, warn) if statements else None
        )
        self._waits = WaitSampler(self._wait_link, recorder, watch, self._gaps)
        space = None
        if local and data_dir is not None:
            space = SpaceSampler(
                recorder, data_dir, max_wal_size_bytes=max_wal_size_bytes, warn=warn
            )
        self._host = HostSampler(
            recorder,
            self._missing,
            local=local,
            postmaster_pid=postmaster_pid,
            data_dir=data_dir,
            space=space,
        )
        self._sampling, self._ticking = threading.RLock(), threading.RLock()
        self._resting = False
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._taken = self._left_out = 0
        self.at_edges: list[Callable[[], None]] = []
        """Samplers with a thread of their own that also sample when a slice begins or ends."""

    @property
    def missing(self) -> dict[str, str]:
        """Reason by missing probe."""
        return self._missing.reasons()

    @property
    def silent_s(self) -> float:
        """Seconds since the server last answered."""
        return (time.monotonic_ns() - self._server.answered_ns) / 1e9

    def start(self) -> None:
        """Connect, record missing probes, and start the threads."""
        with self._sampling, self._recovering("server", self._link):
            self._host.follow(self._server.start_session())
        rng = random.Random()
        self._threads = [
            self._thread("pgdyno-probe", self._pace.sample_every_s, self._sample, lambda: 0.0),
            # Each tick is at a random time in its period, since periodic work of the
            # server would otherwise be seen always or never.
            self._thread("pgdyno-waits", self._pace.tick_every_s, self._tick, rng.random),
            threading.Thread(target=self._guard, name="pgdyno-guard", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, write their samples, disconnect. May be called twice."""
        self._stopping.set()
        give_up_s = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, give_up_s - time.monotonic()))
        with _held(self._ticking) as mine:
            if mine:
                self._waits.flush()
                self._wait_link.close()
        with _held(self._sampling) as mine:
            if mine:
                self._server.end()
                self._link.close()
        self._gaps.close()
        for sentence in self._gaps.sentences():
            self._warn(f"warning: {sentence}")
        if self._left_out:
            self._recorder.add_event(
                "probe",
                "samples left out",
                {"probe": "server", "left_out": self._left_out, "taken": self._taken},
            )
            self._left_out = 0

    def sample_now(self) -> None:
        """Sample everything now, before it returns, for the start and end of a slice.

        Call it just after a slice is opened and just before it is closed.
        """
        with _held(self._sampling) as mine:
            if mine:
                self._sample_all(full=True)
        with _held(self._ticking) as mine:
            if mine:
                self._waits.flush()
        for sample in self.at_edges:
            sample()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Disconnect from the server for a restart; nothing within the block counts as failure."""
        with _held(self._sampling), _held(self._ticking):
            self._resting = True
            self._waits.flush()
            self._server.end()
            self._link.close()
            self._wait_link.close()
        try:
            yield
        finally:
            self._resting = False

    def _sample(self) -> None:
        if self._sampling.acquire(blocking=False):
            try:
                self._sample_all(full=False)
                self._taken += 1
            finally:
                self._sampling.release()

    def _sample_all(self, *, full: bool) -> None:
        roles = None
        began_s = time.monotonic()
        if not self._resting and (full or self._samples_spent.is_due):
            with self._recovering("server", self._link):
                roles = self._server.sample(full=full, with_roles=self._host.needs_roles)
                self._samples_spent.spend(began_s, self._server.took_s)
                if self._server.is_new:
                    self._host.follow(self._server.start_session())
                if self._statements is not None:
                    self._statements.sample(full=full)
                self._link.show(self._own_transactions())
        self._host.sample(roles, full=full)

    def _tick(self) -> None:
        began_s = time.monotonic()
        if self._resting or not self._ticks_spent.is_due:
            return
        if self._ticking.acquire(blocking=False):
            try:
                with self._recovering("waits", self._wait_link):
                    self._waits.tick()
            finally:
                self._ticking.release()
        self._ticks_spent.spend(began_s, self._waits.took_s + MESSAGES_S)

    def _own_transactions(self) -> int:
        return self._link.transactions + self._wait_link.transactions

    @contextmanager
    def _recovering(self, probe: Probe, link: Link) -> Iterator[None]:
        """After any error within the block, close the probe's connection and pause. Only a
        PgdynoError is raised: the run file cannot be written."""
        try:
            yield
            self._failures[probe] = 0
        except PgdynoError:
            raise
        except Exception as problem:
            self._gaps.lost(probe, f"{type(problem).__name__}: {problem}")
            failures = self._failures[probe] = self._failures.get(probe, 0) + 1
            link.rest(PAUSE_S[min(failures, len(PAUSE_S)) - 1])

    def _guard(self) -> None:
        """Close connections to a server that does not answer, until both threads have ended."""
        first, second, _ = self._threads
        while not self._stopping.wait(GUARD_EVERY_S) or first.is_alive() or second.is_alive():
            self._link.disconnect_if_stuck()
            self._wait_link.disconnect_if_stuck()
            if self._stopping.is_set():
                for each in (first, second):
                    each.join(TICK_EVERY_S)

    def _thread(
        self, name: str, every_s: float, act: Callable[[], None], offset: Callable[[], float]
    ) -> threading.Thread:
        """Return a thread that acts once in each period, at ``offset`` (0 to 1) within it."""

        def run() -> None:
            began_s = time.monotonic()
            period = 0
            while not self._stopping.wait(
                max(0.0, began_s + (period + offset()) * every_s - time.monotonic())
            ):
                try:
                    act()
                except PgdynoError:
                    return  # The run file cannot be written; the recorder also reports it.
                on_time = int((time.monotonic() - began_s) / every_s) + 1
                if every_s == self._pace.sample_every_s:
                    self._left_out += max(0, on_time - period - 1)
                period = max(period + 1, on_time)

        return threading.Thread(target=run, name=name, daemon=True)


@contextmanager
def _held(lock: threading.RLock) -> Iterator[bool]:
    """Acquire the lock; yields False if a thread waiting for the server holds it too long."""
    mine = lock.acquire(timeout=PATIENCE_S)
    try:
        yield mine
    finally:
        if mine:
            lock.release()


class HostProbes:
    """Sample the machine once a second, as :class:`Probes` does beside the server."""

    def __init__(self, recorder: Recorder) -> None:
        self._missing = MissingProbes(recorder)
        self._missing.add("server", NO_DATABASE)
        self._missing.add("space", NO_DATABASE)
        self._host = HostSampler(
            recorder, self._missing, local=True, postmaster_pid=None, data_dir=None, space=None
        )
        self._stopping = threading.Event()
        self._sampling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pgdyno-probe", daemon=True)

    silent_s = 0.0
    """Nothing is asked that could be silent."""

    @property
    def missing(self) -> dict[str, str]:
        """Reason by missing probe."""
        return self._missing.reasons()

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. May be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def sample_now(self) -> None:
        """Take a sample, before it returns."""
        with self._sampling:
            self._host.sample(None, full=True)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Do nothing: there is no server that is restarted."""
        yield

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_EVERY_S):
            with self._sampling:
                self._host.sample(None, full=False)
