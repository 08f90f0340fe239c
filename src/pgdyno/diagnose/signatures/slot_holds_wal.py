"""Replication slot: it keeps WAL that its consumer does not fetch.

Trigger: a slot whose position did not move while the load wrote at least ``WRITTEN_BYTES_MIN`` of
WAL, and that no consumer used; or one in use that fell behind by at least ``BEHIND_SHARE`` of the
WAL written and is ``BEHIND_BYTES_MIN`` behind. It is about to fail if the disk is full within a day
(see ``facts.kept_wal``), unless max_slot_wal_keep_size takes the WAL away from the slot before.

Thresholds: db-triage alarms at a pg_wal of three times max_wal_size and 50 GB, which is late: that
a slot has no consumer is certain from its own row. Calibrated by injection: a logical slot that
nothing read kept all WAL from the first second on.

Look-alikes: a WAL that grows up to max_wal_size is normal, and is recycled; a failing archiver has
its own finding; wal_keep_size keeps no more than it says; the slot by which pgdyno keeps the age of
a server that it starts is not examined. Versions: all since 14.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.kept_wal import outlook, outlook_evidence
from pgdyno.numbers import counted, duration, size
from pgdyno.record import Series
from pgdyno.record.finding import Evidence
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


def examine(s: Situation) -> Found | Cleared:
    """Examine each slot's position against the WAL that was written."""
    slots = _slots(s)
    evidence = [s.evidence("replication slots", len(slots), "count")]
    evidence += [item for slot in slots for item in _evidence(s, slot)]
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
    return _found(s, max(holding, key=lambda slot: slot.kept_bytes), evidence)


def _found(s: Situation, slot: _Slot, evidence: list[Evidence]) -> Found:
    seen = outlook(s)
    why = "falls behind" if slot.used else "has no consumer"
    return Found(
        sentence=(
            f'the {slot.kind} replication slot "{slot.name}" {why} and keeps'
            f" {size(slot.kept_bytes)} of WAL:"
            f" {_consequence(slot, seen.bytes_s, seen.in_words)}"
        ),
        liftable=0.0,
        confidence=0.7 if slot.used else 0.95,
        evidence=[*evidence, *outlook_evidence(s, seen)],
        about_to_fail=seen.about_to_fail and slot.safe_bytes is None,
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


def _evidence(s: Situation, slot: _Slot) -> list[Evidence]:
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


SIGNATURE = Signature(
    id="slot-holds-wal",
    false_positives=(
        "a consumer that was stopped for maintenance and comes back; one that fetches in batches"
        " further apart than the run is long"
    ),
    examine=examine,
)
