"""Detects vacuums from samples a second apart.

Long ones are seen in pg_stat_progress_vacuum. Those that ran between two samples appear only in the
tables' counts of vacuums; a count that belongs to a vacuum already seen is not reported twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from pgdyno.json_types import Row

MS = 1_000_000
COUNTS = {"vacuum_count": False, "autovacuum_count": True}
UNCOUNTED_SAMPLES_MAX = 3
"""Samples after which a vacuum that ended and is not counted was cancelled."""

Rows = Iterable[Row]


class Vacuum(Struct, frozen=True):
    """A vacuum of one relation; ``began_ns`` is monotonic, as first seen.

    ``duration_ms`` is None when it was too short to be seen: it ended before ``began_ns`` and after
    the previous sample.
    """

    relation: str
    automatic: bool
    began_ns: int
    duration_ms: float | None
    to_prevent_wraparound: bool = False
    finished: bool = True

    @property
    def label(self) -> str:
        """A label short enough for an axis."""
        return f"{'autovacuum' if self.automatic else 'vacuum'} {self.relation}"


class VacuumWatch(Struct):
    """Derives vacuums from each second's rows of metric_vacuum and metric_table."""

    _running: dict[tuple[int, str], Vacuum] = field(default_factory=dict)
    _counts: dict[tuple[str, bool], int] | None = None
    _uncounted: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _patience: dict[tuple[str, bool], int] = field(default_factory=dict)

    def see(self, ns: int, progress: Rows, tables: Rows) -> list[Vacuum]:
        """Return the vacuums that ended since the previous sample."""
        return self._ended(ns, progress) + self._unseen(ns, tables)

    def unfinished(self, ns: int) -> list[Vacuum]:
        """Return the vacuums in progress at ``ns``, the end of sampling."""
        return [_until(vacuum, ns, finished=False) for vacuum in self._running.values()]

    def forget(self) -> None:
        """Start again from nothing: the server was restarted."""
        self._running, self._counts = {}, None
        self._uncounted, self._patience = Counter(), {}

    def _ended(self, ns: int, progress: Rows) -> list[Vacuum]:
        now = {(row["pid"], row["relation"]): row for row in progress}
        gone = [key for key in self._running if key not in now]
        ended = [_until(self._running.pop(key), ns) for key in gone]
        for vacuum in ended:
            self._uncounted[vacuum.relation, vacuum.automatic] += 1
            self._patience[vacuum.relation, vacuum.automatic] = UNCOUNTED_SAMPLES_MAX
        for key, row in now.items():
            if key not in self._running:
                automatic = bool(row["automatic"])
                wraparound = bool(row["to_prevent_wraparound"])
                self._running[key] = Vacuum(row["relation"], automatic, ns, None, wraparound)
        return ended

    def _unseen(self, ns: int, tables: Rows) -> list[Vacuum]:
        counts = {
            (row["relation"], automatic): row[name] or 0
            for row in tables
            for name, automatic in COUNTS.items()
        }
        before, self._counts = self._counts, counts
        if before is None:
            return []
        unseen = []
        for key, count in counts.items():
            # A table new to the list has no count to compare with.
            for _ in range(self._unexplained(key, count - before.get(key, count))):
                unseen.append(Vacuum(key[0], key[1], ns, None))
        return unseen

    def _unexplained(self, key: tuple[str, bool], counted: int) -> int:
        """Return how many of the newly counted vacuums were never seen running."""
        self._uncounted[key] -= max(0, counted)
        left = self._uncounted[key]
        running = any((v.relation, v.automatic) == key for v in self._running.values())
        if left < 0 and not running:
            self._uncounted[key] = 0
            return -left
        if left > 0:
            self._patience[key] = self._patience.get(key, 0) - 1
            if self._patience[key] <= 0:
                self._uncounted[key] = 0
        return 0


def _until(vacuum: Vacuum, ns: int, *, finished: bool = True) -> Vacuum:
    duration_ms = (ns - vacuum.began_ns) / MS
    return Vacuum(
        vacuum.relation,
        vacuum.automatic,
        vacuum.began_ns,
        duration_ms,
        vacuum.to_prevent_wraparound,
        finished,
    )
