"""The latest decision; it expires after ``valid_s``, and without one the answer is "unknown".

A decision whose reading is older than ``valid_s`` says nothing any more, and neither does the last
one once the database could not be asked. Then ``--when-unknown`` decides, except that loaders which
are paused stay paused. A file keeps the pause: a governor that is started again goes on with it.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Literal

from pgdyno.errors import SetupError
from pgdyno.files import write_whole
from pgdyno.govern._client import now_s
from pgdyno.govern.deciding import AgeMarks
from pgdyno.numbers import duration
from pgdyno.results.govern import GovernDecision
from pgdyno.results.marks import GovernMarks
from pgdyno.server.directories import govern_dir


def was_paused(system_identifier: str) -> bool:
    """Return whether the last governor of this server left its loaders paused: there is a file for
    as long as they are, and one that cannot be read says no less."""
    try:
        return bool(json.loads(_path(system_identifier).read_text())["paused"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, LookupError, TypeError):
        return True


def remember(system_identifier: str, *, paused: bool) -> str:
    """Keep it for the next governor of this server. Returns why that is not possible, or ''."""
    try:
        path = _path(system_identifier)
        if paused:
            write_whole(path, json.dumps({"paused": True}).encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as problem:
        return problem.strerror or str(problem)
    except SetupError as problem:
        return problem.message
    return ""


def _path(system_identifier: str) -> Path:
    return govern_dir() / f"{int(system_identifier)}.json"


WhenUnknown = Literal["pause", "go"]


class Board:
    """Thread-safe."""

    def __init__(
        self, server: str, marks: AgeMarks, valid_s: float, when_unknown: WhenUnknown
    ) -> None:
        """Nothing is known yet."""
        self._server = server
        self._marks = marks
        self._valid_s = valid_s
        self._when_unknown = when_unknown
        self._last: GovernDecision | None = None
        self._at_s: float | None = None
        self._lost: str | None = "it has not been asked yet"
        self._was_paused = False
        self._number = 0
        self._changed = threading.Condition()

    def keep_paused(self) -> None:
        """Loaders were paused by the last governor: they are until this one knows better."""
        self._was_paused = True

    def put(self, decision: GovernDecision, at_s: float) -> None:
        """Publish a decision; its reading is of ``at_s`` by ``now_s``."""
        with self._changed:
            self._last, self._at_s, self._lost = decision, at_s, None
            self._was_paused = decision.pause is not None
            self._number += 1
            self._changed.notify_all()

    def lose(self, why: str) -> None:
        """From now on the database cannot be asked."""
        with self._changed:
            self._lost = why
            self._number += 1
            self._changed.notify_all()

    def current(self) -> GovernDecision:
        """Return the decision as of this moment, with its age."""
        with self._changed:
            last, at_s, lost = self._last, self._at_s, self._lost
        age_s = None if at_s is None else max(0.0, now_s() - at_s)
        fresh = age_s is not None and age_s <= self._valid_s
        if last is not None and lost is None and fresh:
            return last.model_copy(update={"age_s": age_s})
        return self._unknown(last, age_s, lost or "it has not answered since")

    def wait_for_news(self, number: int, timeout_s: float) -> int:
        """Wait until there is something newer than ``number``; return its number."""
        with self._changed:
            self._changed.wait_for(lambda: self._number != number, timeout_s)
            return self._number

    def _unknown(
        self, last: GovernDecision | None, age_s: float | None, why: str
    ) -> GovernDecision:
        decision = "pause" if self._was_paused else self._when_unknown
        since = f" for {duration(age_s)}" if age_s is not None else ""
        kept = ", and loaders were paused before" if self._was_paused else ""
        values = {
            "schema_version": 1,
            "decision": decision,
            "share": 1.0 if decision == "go" else 0.0,
            "delay_per_s": 0.0,
            "known": False,
            "why": f"the age is unknown{since}: {why}{kept}",
            "age_s": age_s,
            "valid_s": self._valid_s,
            "server": self._server,
            "version": last.version if last else None,
            "marks": GovernMarks(low=self._marks.low, high=self._marks.high),
            "worst": None,
            "pause": last.pause if last else None,
            "burn": None,
            "pins": (),
            "databases": (),
            "relations": (),
            "members": None,
            "vacuum": None,
            "warnings": (),
            "not_known": (),
        }
        return GovernDecision.model_validate(values)
