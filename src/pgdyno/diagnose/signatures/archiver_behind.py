"""Archiver: WAL segments cannot be removed because they are not archived.

Trigger: the archiver's last attempt failed, at a segment that it has not archived since; or it
succeeds, but is more than ``SEGMENTS_BEHIND`` complete segments behind and fell further behind over
the period. It is about to fail if the disk is full within a day (see ``facts.kept_wal``): WAL that
waits for the archiver has no limit.

Thresholds: a failing command is certain from pg_stat_archiver. An archiver in step has one complete
segment to copy, or two while it copies; the bar is calibrated by injection (see the tests).

Look-alikes: a slot without a consumer has its own finding; a WAL that grows up to max_wal_size is
normal. The archiver is only asked when a segment is complete, or after archive_timeout. Versions:
all; since 15 archive_library may stand for the command.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.kept_wal import outlook, outlook_evidence
from pgdyno.numbers import figure, size
from pgdyno.record import Series
from pgdyno.record.finding import Evidence, Skip

SEGMENTS_BEHIND = 4
_SEGMENT_BYTES = 16 << 20
_NAME_LENGTH = 24


class _Archiver(Struct, frozen=True):
    """The archiver at the end of the period."""

    fails_at: str | None
    """The segment that it last failed to archive, unless it has succeeded since."""
    failures: float
    archived: float
    waiting_bytes: float
    """WAL from the oldest segment that is not archived, the one being written included."""
    waited_bytes: float
    """The same at the start of the period."""

    @property
    def is_behind(self) -> bool:
        """True if complete segments pile up."""
        far = self.waiting_bytes > (SEGMENTS_BEHIND + 1) * _SEGMENT_BYTES
        return far and self.waiting_bytes > self.waited_bytes + _SEGMENT_BYTES


def examine(s: Situation) -> Found | Cleared:
    """Examine the archiver's failures and its distance from the end of the WAL."""
    if s.settings.text("archive_mode") in (None, "off"):
        return Cleared("archive_mode is off", [s.evidence("archive_mode", "off", "")])
    rows = s.run.series("metric_archiver", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the archiver's counters were not recorded")
    archiver = _archiver(s, rows)
    evidence = _evidence(s, archiver)
    if archiver.fails_at is None and not archiver.is_behind:
        if archiver.waiting_bytes < 2 * _SEGMENT_BYTES and not archiver.archived:
            return Cleared("no complete WAL segment had to be archived", evidence)
        return Cleared(f"{figure(archiver.archived)} WAL segments were archived in time", evidence)
    return _found(s, archiver, evidence)


def _found(s: Situation, archiver: _Archiver, evidence: list[Evidence]) -> Found:
    seen = outlook(s)
    why = "is slower than the load writes WAL"
    if archiver.fails_at is not None:
        why = f"fails at WAL segment {archiver.fails_at}"
    return Found(
        sentence=(
            f"the archiver {why}; {size(archiver.waiting_bytes)} of WAL wait for it and cannot"
            f" be removed: {seen.in_words}"
        ),
        liftable=0.0,
        confidence=0.95 if archiver.fails_at is not None else 0.7,
        evidence=[*evidence, *outlook_evidence(s, seen)],
        about_to_fail=seen.about_to_fail,
        advice=(
            "run archive_command by hand as the server's account to see its error (the server's log"
            " has it too); if it works but is slow, let it copy several segments at a time, or"
            " compress less"
        ),
    )


def _archiver(s: Situation, rows: Series) -> _Archiver:
    inserted = s.run.series("metric_wal", s.slice_ids)["insert_lsn_bytes"]
    if not len(inserted):
        raise Skip("the server's WAL counters were not recorded")
    failures, archived = rows["failed_count"], rows["archived_count"]
    return _Archiver(
        fails_at=_fails_at(rows, -1),
        failures=float(failures[-1] - failures[0]),
        archived=float(archived[-1] - archived[0]),
        waiting_bytes=_waiting(rows, -1, float(inserted[-1])),
        waited_bytes=_waiting(rows, 0, float(inserted[0])),
    )


def _fails_at(rows: Series, i: int) -> str | None:
    """Return the segment at which the archiver failed later than it last succeeded."""
    failed, archived = rows["last_failed_unix_ms"][i], rows["last_archived_unix_ms"][i]
    if failed != failed or archived >= failed:  # NaN: never
        return None
    return str(rows["last_failed_wal"][i])


def _waiting(rows: Series, i: int, inserted_bytes: float) -> float:
    """Return the WAL that the archiver has not archived; 0 if it never had anything to do."""
    failing, done = _fails_at(rows, i), rows["last_archived_wal"][i]
    if failing is not None:
        return max(0.0, inserted_bytes - position_bytes(failing))
    if not done or len(str(done)) != _NAME_LENGTH:
        return 0.0
    return max(0.0, inserted_bytes - position_bytes(str(done)) - _SEGMENT_BYTES)


def position_bytes(segment: str) -> float:
    """Return the position at which a WAL segment of 16 MB begins, by its name.

    A name is the timeline, the position's upper 32 bits and the number of the segment within them.
    """
    return float((int(segment[8:16], 16) << 32) + int(segment[16:24], 16) * _SEGMENT_BYTES)


def _evidence(s: Situation, archiver: _Archiver) -> list[Evidence]:
    behind = f"more than {SEGMENTS_BEHIND} complete segments of 16 MB, and growing"
    return [
        s.evidence("segments archived", archiver.archived, "count"),
        s.evidence("attempts that failed", archiver.failures, "count"),
        s.evidence("segment at which it fails", archiver.fails_at or "none", "", "any"),
        s.evidence("WAL not yet archived", archiver.waiting_bytes, "bytes", behind),
    ]


SIGNATURE = Signature(
    id="archiver-behind",
    false_positives=(
        "an archive that was away for a moment and is back at the next attempt; WAL segments of"
        " another size than 16 MB"
    ),
    examine=examine,
)
