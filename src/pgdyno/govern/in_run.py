"""The governor of a run: looks at the server under load, and has the clients keep to its decisions.

Open loops start transactions at a share of their rate, of closed loops that share of the clients
works; at a pause, none. The decisions are those of the daemon. What it decides is recorded: each
change as an event, and a summary at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pgdyno.conduct import Session
from pgdyno.errors import PgdynoError
from pgdyno.govern._reading import Reader, reading
from pgdyno.govern._vacuuming import Vacuumer
from pgdyno.govern.deciding import AgeMarks, Decider
from pgdyno.record.events import GOVERN, GOVERNED
from pgdyno.results.govern import GovernDecision
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.exclusive_use import sole_governor
from pgdyno.server.versions import plain_version
from pgdyno.spec.govern import GovernSpec

_RETRY_S = 1.0
_SHARE_STEP = 0.1
"""Difference of the share from which a decision of the same kind is an event."""


@contextmanager
def governing(session: Session) -> Iterator[None]:
    """Govern the load of a session within the block, if its spec says so.

    Raises SetupError if the server cannot be asked at first, or has a governor already.
    """
    spec = session.spec.govern
    if spec is None:
        yield
        return
    with ExitStack() as held:
        held.enter_context(sole_governor(session.target.conninfo))
        governor = _RunGovernor(session, spec)
        governor.begin()
        held.callback(governor.end)
        yield


@dataclass
class _Times:
    """Times for which clients were slowed down and paused."""

    slow_s: float = 0.0
    paused_s: float = 0.0
    unknown_s: float = 0.0
    kind: str = "go"
    known: bool = True
    since_s: float = field(default_factory=time.monotonic)

    def turn(self, kind: str, *, known: bool) -> None:
        """Count the time of the last decision; another one is in force from now on."""
        now_s = time.monotonic()
        passed_s, self.since_s = now_s - self.since_s, now_s
        if self.kind == "slow":
            self.slow_s += passed_s
        elif self.kind == "pause":
            self.paused_s += passed_s
            self.unknown_s += 0.0 if self.known else passed_s
        self.kind, self.known = kind, known


class _RunGovernor:
    """A thread that looks, decides and steers until it is ended."""

    def __init__(self, session: Session, spec: GovernSpec) -> None:
        self._session = session
        self._spec = spec
        self._conninfo: ConnInfo = session.target.conninfo
        self._interval_s = spec.interval_ms / 1000
        self._decider = Decider(
            AgeMarks(spec.low, spec.high),
            self._conninfo.uri_without_password,
            plain_version(str(session.target.facts["version"])),
            valid_s=5 * self._interval_s,
            interval_s=self._interval_s,
        )
        vacuums = spec.vacuum and spec.on
        self._vacuumer = Vacuumer(self._conninfo) if vacuums else None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._govern, name="governor", daemon=True)
        self._times = _Times()
        self._said = ("go", 1.0)
        self._looks = self._pauses = self._age_max = 0
        self._of = "transaction IDs"
        self._problem: BaseException | None = None

    def begin(self) -> None:
        """Look once, so that a server that cannot be asked fails now, and start the thread."""
        with reading(self._conninfo) as reader:
            self._look(reader)
        self._thread.start()

    def end(self) -> None:
        """End the thread, and a vacuum in hand; record the summary. Raises what ended the thread
        before its time."""
        self._ending.set()
        self._thread.join()
        if self._vacuumer:
            self._vacuumer.close()
        self._times.turn("go", known=True)
        if self._problem is not None:
            raise self._problem
        self._session.recorder.add_event(GOVERNED, "governor of the run ended", self._summary())

    def _summary(self) -> dict[str, object]:
        spec, times = self._spec, self._times
        return {
            "on": spec.on,
            "marks": {"low": spec.low, "high": spec.high},
            "interval_s": self._interval_s,
            "looks": self._looks,
            "of": self._of,
            "age_max": self._age_max,
            "beyond_high": max(0, self._age_max - spec.high),
            "slow_s": round(times.slow_s, 2),
            "pauses": self._pauses,
            "paused_s": round(times.paused_s, 2),
            "unknown_s": round(times.unknown_s, 2),
            "vacuumed": self._vacuumer.state().done if self._vacuumer else None,
        }

    def _govern(self) -> None:
        try:
            self._look_until_the_end()
        except BaseException as problem:
            self._problem = problem
            if self._spec.on:
                self._session.slow_down(0.0)  # Nobody looks any more.

    def _look_until_the_end(self) -> None:
        import psycopg

        while not self._ending.is_set():
            try:
                with reading(self._conninfo) as reader:
                    while not self._ending.wait(self._interval_s):
                        self._look(reader)
            except (PgdynoError, psycopg.Error):
                # Nobody knows the age: a loader that goes on could not be stopped in time.
                self._follow("pause", 0.0, "the server cannot be asked", known=False)
                self._ending.wait(_RETRY_S)

    def _look(self, reader: Reader) -> None:
        state = self._vacuumer.state() if self._vacuumer else None
        decision = self._decider.decide(reader.look(), state)
        self._looks += 1
        self._note_age(decision)
        if self._vacuumer:
            self._vacuumer.attend(decision)
        self._follow(decision.decision, decision.share, decision.why, known=True)

    def _note_age(self, decision: GovernDecision) -> None:
        worst = decision.worst
        if worst is not None and worst.age > self._age_max:
            self._age_max, self._of = worst.age, worst.of

    def _follow(self, kind: str, share: float, why: str, *, known: bool) -> None:
        """Have the clients keep to a decision, and record it if it differs from the last one."""
        if not self._spec.on:
            return
        self._session.slow_down(share)
        self._times.turn(kind, known=known)
        said_kind, said_share = self._said
        if kind == said_kind and abs(share - said_share) < _SHARE_STEP:
            return
        self._pauses += kind == "pause" and said_kind != "pause"
        self._said = (kind, share)
        label = f"governor: {kind}" + (f", {share:.0%}" if kind == "slow" else "")
        self._session.recorder.add_event(GOVERN, label, {"share": share, "why": why})
