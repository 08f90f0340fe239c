"""Numbers that run out: transaction IDs, multixacts and sequences."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.holders import ids_assigned, last_holder
from pgdyno.facts.kept_wal import HORIZON_S
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record import Series
from pgdyno.record.events import probe_events
from pgdyno.record.failures import is_out_of_ids
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.age import (
    FREEZE_AGES,
    FREEZE_SETTINGS,
    ID_NOUNS,
    STOP_AGE,
    Ids,
    failsafe_age,
    warning_age,
)

AGE_MAX = 1_000_000_000
KEPT_SHARE = 0.9
"""A holder of an xmin that is this part of the oldest age keeps it from being frozen."""
_COLUMNS: dict[Ids, str] = {"xid": "xid_age", "mxid": "mxid_age"}


class Headroom(Struct, frozen=True):
    """IDs of one kind that are left to the database with the oldest."""

    ids: Ids
    database: str
    age: float
    per_s: float
    freeze_age: float
    failsafe_age: float
    warning_age: float
    """At which this server's version warns."""

    def left_s(self, age: float) -> float | None:
        """Return the time until ``age`` at this rate: 0 if it is reached, None if never."""
        if self.age >= age:
            return 0.0
        return (age - self.age) / self.per_s if self.per_s > 0 else None

    @property
    def stops_soon(self) -> bool:
        """True if freezing is overdue and the stop is within ``HORIZON_S``."""
        left_s = self.left_s(STOP_AGE)
        return self.age > self.freeze_age and left_s is not None and left_s < HORIZON_S

    @property
    def found(self) -> bool:
        return self.age >= AGE_MAX or self.stops_soon

    @property
    def about_to_fail(self) -> bool:
        """True if the server itself takes it for an emergency, or stops soon."""
        return self.stops_soon or self.age >= min(self.failsafe_age, warning_age())


@rule(
    "transaction-ids",
    false_positives=(
        "a vacuum that is freezing the oldest tables right now; a load that assigns IDs much"
        " faster than the server will in production"
    ),
)
def transaction_ids(s: Situation) -> Found | Cleared:
    """Transaction IDs and multixacts: how long the server can go on assigning them.

    Trigger: transactions that the server refused an ID; a database whose oldest transaction ID or
    multixact is ``AGE_MAX`` old; or older than the age at which autovacuum must freeze it, and at
    this rate at the stop within ``HORIZON_S``: then freezing does not keep up, or something holds
    it back. It is about to fail in the second case, from the age of ``vacuum_failsafe_age`` on, and
    from that at which the newest version warns.

    Thresholds: db-triage warns at 1.0 billion and alarms at 1.5 (check_postgres: 1.3 and 1.4); a
    day is the horizon of ``facts.kept_wal``. The server stops assigning IDs 3 million before the
    oldest is 2^31 behind, and warns 40 million before that (varsup.c, multixact.c), which leaves
    little time: 100 million since version 19, the bar for all versions. From vacuum_failsafe_age,
    1.6 billion by default, vacuum skips its cost delay and indexes (14 and later). The room for
    members of multixacts, which can end before their IDs do before version 19, is not checked.
    """
    rooms = headrooms(s)
    evidence = [item for room in rooms for item in _evidence(s, room)]
    worst = max(rooms, key=lambda room: (room.about_to_fail, room.found, room.age))
    refused = sum(error.count for error in s.run.errors(s.slice_ids) if is_out_of_ids(error))
    evidence.append(s.evidence("transactions refused an ID", refused, "count", "at least 1"))
    if not worst.found and not refused:
        return Cleared(_cleared(rooms[0]), evidence)
    return Found(
        sentence=_refused_in_words(s, refused) if refused else _age_in_words(s, worst),
        removable_share=0.0,
        confidence=0.95,
        evidence=evidence,
        causes=(
            *("xmin-pinned", "prepared-transactions", "slot-holds-wal"),
            *("autovacuum-off", "autovacuum-slow"),
        ),
        severity="will fail" if worst.about_to_fail or refused > 0 else None,
        advice=(
            "end what holds back vacuum (old transactions, prepared transactions, slots), then"
            " VACUUM the tables with the oldest relfrozenxid of that database, without FULL and"
            " without FREEZE; a lower load postpones the stop (pgdyno govern slows loaders down)"
        ),
    )


def _refused_in_words(s: Situation, refused: int) -> str:
    ages = s.run.series("metric_age", s.slice_ids)
    oldest = [
        f"the oldest {ID_NOUNS[ids]} was {figure(float(max(ages[column])))} old"
        for ids, column in _COLUMNS.items()
        if max(ages[column]) >= warning_age(s.server_version_num)
    ]
    why = f": {' and '.join(oldest)}" if oldest else ""
    return f"the server refused {counted(refused, 'transaction', 'transactions')} an ID{why}"


def _age_in_words(s: Situation, worst: Headroom) -> str:
    warns = "; it warns of that in its log" if worst.age >= worst.warning_age else ""
    return (
        f"the oldest {ID_NOUNS[worst.ids]} of database {worst.database} is"
        f" {figure(worst.age)} old, {percent(worst.age / STOP_AGE)} of the age at which the"
        f" server stops writing{_left_in_words(worst)}{_kept_in_words(s, worst)}{warns}"
    )


def headrooms(s: Situation) -> list[Headroom]:
    """Return the headroom in transaction IDs and in multixacts. Skip if not recorded."""
    rows = s.run.series("metric_age", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the ages of the databases were not recorded")
    return [_headroom(s, rows, ids) for ids in _COLUMNS]


def _headroom(s: Situation, rows: Series, ids: Ids) -> Headroom:
    ages = rows[_COLUMNS[ids]]
    last = [i for i, at_ms in enumerate(rows["at_ms"]) if at_ms == rows["at_ms"][-1]]
    oldest = max(last, key=lambda i: ages[i])
    database = rows["database"][oldest]
    # All databases age together, but one that is being frozen does not show it.
    per_s = max(
        ids_assigned(ages[rows["database"] == name]) / s.seconds
        for name in {rows["database"][i] for i in last}
    )
    freeze_age = s.settings.number(FREEZE_SETTINGS[ids]) or FREEZE_AGES[ids]
    return Headroom(
        ids,
        str(database),
        float(ages[oldest]),
        per_s,
        freeze_age,
        failsafe_age(ids, s.settings.number),
        warning_age(s.server_version_num),
    )


def _left_in_words(room: Headroom) -> str:
    left_s = room.left_s(STOP_AGE)
    if left_s is None:
        return ""
    if left_s == 0.0:
        return ", which is reached"
    return f", which it reaches in {duration(left_s)} at {figure(room.per_s)}/s"


def _kept_in_words(s: Situation, room: Headroom) -> str:
    """Return the clause on what keeps the oldest IDs from being frozen; '' if nothing is known."""
    slots = s.run.series("metric_slot", s.slice_ids)
    for i in reversed(range(len(slots["at_ms"]))):
        ages = (float(slots["xmin_age"][i]), float(slots["catalog_xmin_age"][i]))
        if max((age for age in ages if age == age), default=0.0) >= KEPT_SHARE * room.age:
            return f'; the replication slot "{slots["slot_name"][i]}" keeps it from being frozen'
    try:
        holder = last_holder(s)
    except Skip:
        return ""
    if holder is None or holder.age < KEPT_SHARE * room.age:
        return ""
    return f"; {holder.in_words} keeps it from being frozen"


def _cleared(room: Headroom) -> str:
    left_s = room.left_s(room.freeze_age)
    if left_s is None:
        return f"the oldest {ID_NOUNS[room.ids]} is {figure(room.age)} old"
    when = f"in {duration(left_s)}" if left_s else "now"
    return (
        f"the oldest {ID_NOUNS[room.ids]} is {figure(room.age)} old; at {figure(room.per_s)}/s"
        f" autovacuum must freeze the oldest tables {when}"
    )


def _evidence(s: Situation, room: Headroom) -> list[Evidence]:
    what = f"oldest {ID_NOUNS[room.ids]}"
    return [
        s.evidence(f"{what}, age", room.age, "count", f"at least {AGE_MAX:,}"),
        s.evidence(f"{ID_NOUNS[room.ids]}s assigned", room.per_s, "count/s"),
        s.evidence(f"{what}, forced freezing in", room.left_s(room.freeze_age), "s"),
        s.evidence(f"{what}, failsafe in", room.left_s(room.failsafe_age), "s"),
        s.evidence(f"{what}, the server's warnings in", room.left_s(room.warning_age), "s"),
        s.evidence(f"{what}, stop in", room.left_s(STOP_AGE), "s",
                   f"within {duration(HORIZON_S)} if freezing is overdue"),
    ]  # fmt: skip


USED_SHARE = 0.85
CRITICAL_SHARE = 0.95


class _Sequence(Struct, frozen=True):
    """A sequence at the end of the period."""

    name: str
    value: float
    last: float
    per_s: float

    @property
    def used(self) -> float:
        return self.value / self.last

    @property
    def left_s(self) -> float | None:
        return (self.last - self.value) / self.per_s if self.per_s > 0 else None

    @property
    def ends_soon(self) -> bool:
        return self.left_s is not None and self.left_s < HORIZON_S

    @property
    def found(self) -> bool:
        return self.used >= USED_SHARE or self.ends_soon


@rule(
    "sequence-end",
    false_positives="a sequence whose column is not used any more, or that is reset in time",
)
def sequence_end(s: Situation) -> Found | Cleared:
    """Sequences near their last value: after it, every insert that uses the sequence fails.

    Trigger: a sequence has used ``USED_SHARE`` of its values, or of those that its column can hold;
    or at this run's rate it ends within ``HORIZON_S`` and more than half is used. About to fail in
    the second case, and at ``CRITICAL_SHARE``.

    Thresholds: check_postgres warns at 85 % and alarms at 95 %; a day is the horizon of
    ``facts.kept_wal``. Read at the ends of a period and every tenth second, of the thousand largest
    or most written tables. A sequence that another role owns has no value that this role may see;
    nor is it known where a column gets its values other than by its own sequence or by its default.
    """
    if probe_events(s.run, "sequence"):
        raise Skip("the values of sequences were not recorded")
    rows = s.run.series("metric_sequence", s.slice_ids)
    sequences = [_sequence(s, rows, name) for name in sorted(set(rows["sequence"]))]
    if not sequences:
        none = s.evidence("sequences more than half used", 0, "count")
        return Cleared("no sequence has used more than half of its values", [none])
    worst = max(sequences, key=lambda each: (each.ends_soon, each.used))
    evidence = [
        s.evidence(f"{worst.name}, used", worst.used, "share", f"at least {percent(USED_SHARE)}"),
        s.evidence(f"{worst.name}, last value possible", worst.last, "count"),
        s.evidence(f"{worst.name}, ends at this rate in", worst.left_s, "s",
                   f"within {duration(HORIZON_S)}"),
    ]  # fmt: skip
    left = f", the rest within {duration(worst.left_s)} at this rate" if worst.left_s else ""
    sentence = (
        f"the sequence {worst.name} has used {percent(worst.used)} of its {figure(worst.last)}"
        f" values{left}"
    )
    if not worst.found:
        return Cleared(sentence, evidence)
    return Found(
        sentence=f"{sentence}; then each insert that needs one fails",
        removable_share=0.0,
        confidence=0.95,
        evidence=evidence,
        severity="will fail" if worst.ends_soon or worst.used >= CRITICAL_SHARE else None,
        advice=(
            "make the column and its sequence bigint (ALTER SEQUENCE … AS bigint; changing the"
            " column's type rewrites the table under a lock, so fill a second column and exchange"
            " them); negative values from a sequence that descends gain time"
        ),
    )


def _sequence(s: Situation, rows: Series, name: str) -> _Sequence:
    mine = rows["sequence"] == name
    values = rows["last_value"][mine]
    per_s = max(0.0, float(values[-1] - values[0])) / s.seconds
    return _Sequence(name, float(values[-1]), float(rows["last_possible"][mine][-1]), per_s)
