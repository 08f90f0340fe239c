"""A loader's side: the daemon's decision in memory, and a call that waits.

A thread reads the daemon's stream. When the daemon ends, also by kill -9, the stream ends, and the
decision is unknown at once; if it is stopped, or the network is silent, as soon as the last
decision is too old. What is unknown is a pause, unless the loader wants otherwise. Uses the
standard library alone, so that loaders start as quickly as before.

``now_s`` is the clock by which a decision grows old, here as in the daemon: it does not jump, and
counts the time that the machine sleeps, so that a reading from before that is stale.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import threading
import time
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.json_types import Json

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
URL = "http://127.0.0.1:9188"
_REST_S_MAX = 600.0
_POLL_S = 1.0
_FULL = 503
_SILENT_S = 10.0
"""Time without a line after which the connection is made again; the daemon sends one a second."""


def now_s() -> float:
    """Return the seconds since the machine was started."""
    return time.clock_gettime(_CLOCK)


_RETRY_S_MIN, _RETRY_S_MAX = 0.1, 1.0


class Decision(Struct, frozen=True):
    """A decision, as it is known to this process."""

    decision: Literal["go", "slow", "pause"]
    share: float
    """The part of its time that a loader may work."""
    delay_per_s: float
    """Seconds of rest after each second of work."""
    known: bool
    """False: no decision is valid, and the policy decides."""
    why: str
    details: Json | None = None
    """The daemon's JSON, as docs/reference/result-govern.schema.json describes it; None if there is
    none."""

    @property
    def go(self) -> bool:
        """True unless loaders are to pause."""
        return self.decision != "pause"


class Governor:
    """The decision of the daemon at ``url``. Thread-safe, and usable after a fork.

    ``when_unknown`` is what applies while the daemon cannot be asked: "pause" or "go". Raises
    UsageError for a URL that cannot be one of a governor.

    >>> with Governor() as governor:
    ...     for batch in batches:
    ...         governor.wait()
    ...         load(batch)
    """

    def __init__(self, url: str = URL, *, when_unknown: Literal["pause", "go"] = "pause") -> None:
        """Begin to listen; the first decision is known a moment later: ``wait`` waits for it."""
        place = _place(url)
        if place is None or when_unknown not in ("pause", "go"):
            raise UsageError(
                f"Governor({url!r}, when_unknown={when_unknown!r}): not the URL of a governor, or"
                " not a policy",
                code="governor-url",
                hint=f'for example Governor("{URL}", when_unknown="pause")',
            )
        self._host, self._port = place
        self._when_unknown = when_unknown
        self._mine = threading.local()
        self._begin()

    def _begin(self) -> None:
        """Listen in this process."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._closed = False
        self._seen: tuple[Decision, float] | None = None
        self._why = "the governor has not been reached yet"
        self._thread = threading.Thread(target=self._listen, name="pgdyno governor", daemon=True)
        self._thread.start()

    def decision(self) -> Decision:
        """Return the decision from memory, without waiting for anything."""
        if self._pid != os.getpid():
            self._begin()  # A child process has no copy of the thread.
        seen = self._seen
        if seen is not None:
            if now_s() <= seen[1]:
                return seen[0]
            return self._unknown("the governor has been silent for too long")
        return self._unknown(self._why)

    def wait(self, timeout_s: float | None = None) -> Decision:
        """Wait until this thread may go on, and return the decision by which it may.

        Rests in proportion to the time since the last call of this thread, which counts as work.
        After ``timeout_s``, returns a decision that may be "pause": see ``Decision.go``. Raises
        UsageError if that is not a number.
        """
        if timeout_s is not None and not (
            isinstance(timeout_s, (int, float)) and not math.isnan(timeout_s)
        ):
            raise UsageError(
                f"Governor.wait(timeout_s={timeout_s!r}): not a number of seconds",
                code="governor-timeout",
                hint="for example wait(timeout_s=60), or None to wait as long as it takes",
            )
        begun_s = time.monotonic()
        worked_s = max(0.0, begun_s - getattr(self._mine, "since_s", begun_s))
        while True:
            decision = self.decision()
            waited_s = time.monotonic() - begun_s
            rest_s = min(worked_s * decision.delay_per_s, _REST_S_MAX)
            late = timeout_s is not None and waited_s >= timeout_s
            if late or (decision.go and waited_s >= rest_s):
                self._mine.since_s = time.monotonic()
                return decision
            left_s = rest_s - waited_s if decision.go else 1.0
            if timeout_s is not None:
                left_s = min(left_s, timeout_s - waited_s)
            with self._changed:
                self._changed.wait(min(left_s, 1.0))

    def close(self) -> None:
        """Stop listening."""
        with self._changed:
            self._closed = True
            self._seen, self._why = None, "this Governor is closed"
            self._changed.notify_all()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self.close()

    def _unknown(self, why: str) -> Decision:
        go = self._when_unknown == "go"
        return Decision(self._when_unknown, float(go), 0.0, False, why)

    def _listen(self) -> None:
        pause_s = _RETRY_S_MIN
        changed = self._changed
        while not self._closed and self._changed is changed:
            try:
                self._read_stream()
                why = "the governor has ended"
            except (OSError, http.client.HTTPException) as problem:
                why = f"the governor cannot be asked: {problem}"
            except (ValueError, LookupError, TypeError) as problem:
                why = f"what answers is no governor: {problem}"
            had_any = self._seen is not None
            self._forget(why)
            pause_s = _RETRY_S_MIN if had_any else min(2 * pause_s, _RETRY_S_MAX)
            time.sleep(pause_s)

    def _read_stream(self) -> None:
        """Read decisions until the stream ends; while too many read streams, ask one by one."""
        while self._read("/stream") == _FULL and not self._closed:
            if self._read("/decision") == _FULL:
                raise http.client.HTTPException("too many loaders ask it at the same time")
            time.sleep(_POLL_S)

    def _read(self, path: str) -> int:
        """Take the decisions in an answer, and return its status."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_SILENT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status == 200:
                while (line := answer.readline()) and not self._closed:
                    self._take(json.loads(line))
            elif answer.status != _FULL:
                raise http.client.HTTPException(f"status {answer.status}")
            return answer.status
        finally:
            connection.close()

    def _take(self, said: Json) -> None:
        decision, share = said["decision"], float(said["share"])
        if decision not in ("go", "slow", "pause"):
            raise ValueError(f'"{decision}" is not a decision')
        made = Decision(
            decision, share, float(said["delay_per_s"]), said["known"], said["why"], said
        )
        # What the daemon decides without a reading it says anew each second.
        age_s = float(said["age_s"] or 0.0) if said["known"] else 0.0
        until_s = now_s() + max(0.0, float(said["valid_s"]) - age_s)
        with self._changed:
            if not self._closed:
                self._seen = (made, until_s)
                self._changed.notify_all()

    def _forget(self, why: str) -> None:
        with self._changed:
            self._seen, self._why = None, why if not self._closed else self._why
            self._changed.notify_all()


def _place(url: object) -> tuple[str, int] | None:
    """Return host and port in the URL of a governor, or None if it cannot be one."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or not parts.hostname:
        return None
    return parts.hostname, port or urlsplit(URL).port or 0
