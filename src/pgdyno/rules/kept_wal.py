"""WAL that a slot or the archiver keeps."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.kept_wal import outlook, outlook_evidence
from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, listed, size
from pgdyno.record import Series
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.age import PIN
from pgdyno.spec.sql_text import literal

WRITTEN_BYTES_MIN = 1 << 20
BEHIND_BYTES_MIN = 64 << 20
BEHIND_SHARE = 0.5


class _Slot(Struct, frozen=True):
    """A slot at the end of the period."""

    name: str
    kind: str
    used: bool
    """True if a consumer was connected to it at any time in the period."""
    status: str
    kept_bytes: float
    """WAL since its position."""
    fell_behind_bytes: float
    """Growth of ``kept_bytes`` while it was seen."""
    written_bytes: float
    """WAL written in that time."""
    safe_bytes: float | None
    """WAL that may still be written until the slot may lose its own."""

    @property
    def holds(self) -> bool:
        """True if it keeps WAL that would be removed without it."""
        if self.status == "lost" or self.written_bytes < WRITTEN_BYTES_MIN:
            return False
        if not self.used:
            return self.fell_behind_bytes >= 0.9 * self.written_bytes
        behind = self.fell_behind_bytes >= BEHIND_SHARE * self.written_bytes
        return behind and self.kept_bytes >= BEHIND_BYTES_MIN


@rule(
    "slot-holds-wal",
    false_positives=(
        "a consumer that was stopped for maintenance and comes back; one that fetches in batches"
        " further apart than the run is long"
    ),
)
def slot_holds_wal(s: Situation) -> Found | Cleared:
    """Replication slot: it keeps WAL that its consumer does not fetch.

    Trigger: a slot whose position did not move while the load wrote at least ``WRITTEN_BYTES_MIN``
    of WAL, and that no consumer used; or one in use that fell behind by at least ``BEHIND_SHARE``
    of the WAL written and is ``BEHIND_BYTES_MIN`` behind. It is about to fail if the disk is full
    within a day (see ``facts.kept_wal``), unless max_slot_wal_keep_size takes the WAL away from the
    slot before.

    Thresholds: db-triage alarms at a pg_wal of three times max_wal_size and 50 GB, which is late:
    that a slot has no consumer is certain from its own row. Calibrated by injection: a logical slot
    that nothing read kept all WAL from the first second on.

    Look-alikes: a WAL that grows up to max_wal_size is normal, and is recycled; a failing archiver
    has its own finding; wal_keep_size keeps no more than it says; the slot by which pgdyno keeps
    the age of a server that it starts is not examined. Versions: all since 14.
    """
    slots = _slots(s)
    evidence = [s.evidence("replication slots", len(slots), "count")]
    evidence += [item for slot in slots for item in _slot_holds_wal_evidence(s, slot)]
    holding = [slot for slot in slots if slot.holds]
    if not holding:
        lost = [slot.name for slot in slots if slot.status == "lost"]
        if lost:
            return Cleared(
                f'the slot "{lost[0]}" has lost its WAL and holds none any more; its consumer must'
                " be built again",
                evidence,
            )
        number = counted(len(slots), "replication slot", "replication slots")
        return Cleared(f"{number}, and none holds WAL back", evidence)
    return _slot_holds_wal_found(s, max(holding, key=lambda slot: slot.kept_bytes), evidence)


def _slot_holds_wal_found(s: Situation, slot: _Slot, evidence: list[Evidence]) -> Found:
    seen = outlook(s)
    why = "falls behind" if slot.used else "has no consumer"
    return Found(
        sentence=(
            f'the {slot.kind} replication slot "{slot.name}" {why} and keeps'
            f" {size(slot.kept_bytes)} of WAL:"
            f" {_consequence(slot, seen.bytes_s, seen.in_words)}"
        ),
        removable_share=0.0,
        confidence=0.7 if slot.used else 0.95,
        evidence=[*evidence, *outlook_evidence(s, seen)],
        severity="will fail" if seen.about_to_fail and slot.safe_bytes is None else None,
        advice=(
            "let its consumer go on, or, if there is none any more, drop the slot:"
            f" SELECT pg_drop_replication_slot({literal(slot.name)}); max_slot_wal_keep_size"
            " limits what slots may keep, at the price of a consumer that must be built again"
        ),
    )


def _consequence(slot: _Slot, bytes_s: float, of_disk: str) -> str:
    if slot.safe_bytes is None or bytes_s <= 0:
        return of_disk
    return (
        f"max_slot_wal_keep_size removes it in {duration(slot.safe_bytes / bytes_s)} at this rate,"
        " and its consumer must then be built again"
    )


def _slots(s: Situation) -> list[_Slot]:
    rows = s.run.series("metric_slot", s.slice_ids)
    inserted = s.run.series("metric_wal", s.slice_ids)
    positions = dict(zip(inserted["at_ms"], inserted["insert_lsn_bytes"], strict=True))
    names = sorted({str(name) for name in rows["slot_name"]} - {PIN})
    return [_slot(rows, positions, name) for name in names]


def _slot(rows: Series, positions: dict[int, float], name: str) -> _Slot:
    mine = [i for i, each in enumerate(rows["slot_name"]) if each == name]
    seen = [
        (positions[at_ms], at)
        for i in mine
        if (at_ms := rows["at_ms"][i]) in positions and (at := rows["restart_lsn_bytes"][i]) == at
    ]  # without NaN: no position
    kept = [float(end - at) for end, at in seen]
    last = mine[-1]
    safe = float(rows["safe_wal_bytes"][last])
    return _Slot(
        name=name,
        kind=str(rows["slot_type"][last] or ""),
        used=any(rows["active"][i] for i in mine),
        status=str(rows["wal_status"][last] or ""),
        kept_bytes=kept[-1] if kept else 0.0,
        fell_behind_bytes=kept[-1] - kept[0] if kept else 0.0,
        written_bytes=float(seen[-1][0] - seen[0][0]) if seen else 0.0,
        safe_bytes=safe if safe == safe else None,
    )


def _slot_holds_wal_evidence(s: Situation, slot: _Slot) -> list[Evidence]:
    name = f'slot "{slot.name}"'
    bar = f"all of it without a consumer, else half of it and {size(BEHIND_BYTES_MIN)} in all"
    return [
        s.evidence(f"{name}, WAL kept", slot.kept_bytes, "bytes"),
        s.evidence(f"{name}, fell behind by", slot.fell_behind_bytes, "bytes", bar),
        s.evidence("WAL written in that time", slot.written_bytes, "bytes"),
        s.evidence(f"{name}, wal_status", slot.status, ""),
        *(
            s.evidence(f"{name}, WAL until it loses its own", safe, "bytes")
            for safe in [slot.safe_bytes]
            if safe is not None
        ),
    ]


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


@rule(
    "archiver-behind",
    false_positives=(
        "an archive that was away for a moment and is back at the next attempt; WAL segments of"
        " another size than 16 MB"
    ),
)
def archiver_behind(s: Situation) -> Found | Cleared:
    """Archiver: WAL segments cannot be removed because they are not archived.

    Trigger: the archiver's last attempt failed, at a segment that it has not archived since; or it
    succeeds, but is more than ``SEGMENTS_BEHIND`` complete segments behind and fell further behind
    over the period. It is about to fail if the disk is full within a day (see ``facts.kept_wal``):
    WAL that waits for the archiver has no limit.

    Thresholds: a failing command is certain from pg_stat_archiver. An archiver in step has one
    complete segment to copy, or two while it copies; the bar is calibrated by injection (see the
    tests).

    Look-alikes: a slot without a consumer has its own finding; a WAL that grows up to max_wal_size
    is normal. The archiver is only asked when a segment is complete, or after archive_timeout.
    Versions: all; since 15 archive_library may stand for the command.
    """
    if s.settings.text("archive_mode") in (None, "off"):
        return Cleared("archive_mode is off", [s.evidence("archive_mode", "off", "")])
    rows = s.run.series("metric_archiver", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the archiver's counters were not recorded")
    archiver = _archiver(s, rows)
    evidence = _archiver_behind_evidence(s, archiver)
    if archiver.fails_at is None and not archiver.is_behind:
        if archiver.waiting_bytes < 2 * _SEGMENT_BYTES and not archiver.archived:
            return Cleared("no complete WAL segment had to be archived", evidence)
        return Cleared(f"{figure(archiver.archived)} WAL segments were archived in time", evidence)
    return _archiver_behind_found(s, archiver, evidence)


def _archiver_behind_found(s: Situation, archiver: _Archiver, evidence: list[Evidence]) -> Found:
    seen = outlook(s)
    why = "is slower than the load writes WAL"
    if archiver.fails_at is not None:
        why = f"fails at WAL segment {archiver.fails_at}"
    return Found(
        sentence=(
            f"the archiver {why}; {size(archiver.waiting_bytes)} of WAL wait for it and cannot"
            f" be removed: {seen.in_words}"
        ),
        removable_share=0.0,
        confidence=0.95 if archiver.fails_at is not None else 0.7,
        evidence=[*evidence, *outlook_evidence(s, seen)],
        severity="will fail" if seen.about_to_fail else None,
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


def _archiver_behind_evidence(s: Situation, archiver: _Archiver) -> list[Evidence]:
    behind = f"more than {SEGMENTS_BEHIND} complete segments of 16 MB, and growing"
    return [
        s.evidence("segments archived", archiver.archived, "count"),
        s.evidence("attempts that failed", archiver.failures, "count"),
        s.evidence("segment at which it fails", archiver.fails_at or "none", "", "any"),
        s.evidence("WAL not yet archived", archiver.waiting_bytes, "bytes", behind),
    ]


@rule(
    "idle-slots",
    looks=("setting", "slot"),
    covered_by=("slot-holds-wal",),
    false_positives="a consumer that was stopped for maintenance and comes back",
)
def idle_slots(sight: Sight) -> Found | Cleared:
    """Replication slots that nobody uses, and that keep WAL.

    Trigger: a slot that is not active and keeps more WAL than max_wal_size, which is what the
    server keeps for itself. Threshold: ours; from then on the slot is why the WAL grows. db-triage
    alarms at three times that and 50 GB, which is late.
    """
    most = sight.setting("max_wal_size").bytes
    keep = sight.setting("max_slot_wal_keep_size")
    rows = [
        row
        for row in sight.rows("slot")
        if not row["active"] and (row["kept_bytes"] or 0) > most and row["wal_status"] != "lost"
    ]
    if not rows:
        return Cleared("no idle replication slot keeps much WAL")
    worst = max(rows, key=lambda row: row["kept_bytes"])
    unlimited = keep.number < 0
    until = "until the disk is full" if unlimited else f"up to {size(keep.bytes)}"
    return Found(
        sentence=(
            f"nobody uses the replication slot {worst['slot']}, and it keeps"
            f" {size(worst['kept_bytes'])} of WAL, {until}"
        ),
        severity="will fail" if unlimited else "costs",
        confidence=0.85,
        evidence=[
            *(
                measured(f"{row['slot']}, WAL kept", row["kept_bytes"], "bytes",
                         f"more than {size(most)}")
                for row in rows
            ),
            measured(keep.name, "no limit" if unlimited else keep.bytes, "bytes"),
        ],
        advice="let its consumer go on, or drop the slot if there is none any more",
        commands=[f"SELECT pg_drop_replication_slot({literal(row['slot'])})" for row in rows],
    )  # fmt: skip


_BAD = {"lost": "has lost its WAL", "unreserved": "is about to lose its WAL"}


@rule(
    "lost-slots",
    looks=("slot",),
    false_positives="the slot of a consumer that was given up",
)
def lost_slots(sight: Sight) -> Found | Cleared:
    """Replication slots that have lost WAL, or will: their consumer must be built again.

    Trigger: wal_status is lost, or unreserved, where the next checkpoint may remove what the
    consumer needs (max_slot_wal_keep_size). Threshold: none; it is PostgreSQL's own verdict.
    """
    rows = [row for row in sight.rows("slot") if row["wal_status"] in _BAD]
    if not rows:
        return Cleared("no replication slot has lost WAL")
    names = listed([row["slot"] for row in rows])
    status = rows[0]["wal_status"]
    lost = [row["slot"] for row in rows if row["wal_status"] == "lost"]
    return Found(
        sentence=(
            f"the replication slot {names} {_BAD[status]}: its consumer cannot go on and must be"
            " built again"
            if status == "lost"
            else f"the replication slot {names} {_BAD[status]}, and its consumer must then be built"
            " again"
        ),
        severity="costs",
        confidence=0.95,
        evidence=[measured(f"{row['slot']}, wal_status", row["wal_status"], "") for row in rows],
        advice="build the consumer again with a slot of its own, or drop the slot if there is none",
        commands=[f"SELECT pg_drop_replication_slot({literal(name)})" for name in lost],
    )


@rule(
    "archive-without-command",
    looks=("server", "setting"),
    false_positives="an archive that is being repaired and will get the WAL that waits",
)
def archive_without_command(sight: Sight) -> Found | Cleared:
    """WAL is kept for an archive, and nothing archives it.

    Trigger: archive_mode is on, or always, on a server that archives, with neither archive_command
    nor archive_library. Threshold: none; WAL is kept until a command is there (PostgreSQL's
    documentation, "Write Ahead Log"), and the disk fills.
    """
    mode = sight.setting("archive_mode").value
    archives = mode == "always" or (mode == "on" and not sight.is_standby)
    names = [name for name in ("archive_command", "archive_library") if sight.knows(name)]
    evidence = [measured("archive_mode", mode, "", "on")]
    evidence += [measured(name, sight.setting(name).value, "", "empty") for name in names]
    if not archives or any(sight.setting(name).value for name in names):
        return Cleared("WAL is not kept for an archive without a command", evidence)
    return Found(
        sentence=(
            f"archive_mode is {mode} and there is no archive_command: all WAL is kept until the"
            " disk"
            " is full"
        ),
        severity="will fail",
        confidence=0.95,
        evidence=evidence,
        advice=(
            "set archive_command, or archive_mode = off at the next restart; until then"
            " archive_command = '/bin/true' lets WAL go, which an archive then lacks"
        ),
    )
