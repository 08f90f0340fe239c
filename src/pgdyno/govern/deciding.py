"""From readings to decisions: the marks between which loaders slow down, the pause that holds, the
time that is left; and the ages that a decision rests on, as lines of text.

The slow-down is that of the age at the next look, at the rate of the last one: a burst slows
loaders down before they are there. The pause begins at the high mark, and ends only below the low
mark. Nothing here asks a server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.govern._reading import AgeReading, HorizonHolder
from pgdyno.numbers import duration, figure, percent, size
from pgdyno.results.govern import (
    Burn,
    DatabaseAge,
    GovernDecision,
    Kind,
    Pause,
    Pin,
    RelationAge,
    Vacuuming,
    Worst,
)
from pgdyno.results.marks import GovernMarks
from pgdyno.spec.age import STOP_AGE
from pgdyno.spec.govern import HIGH, LOW
from pgdyno.spec.sql_text import literal

SHARE_MIN = 0.05
_AGES_SHOWN = 5
BURN_S = 60.0
_MODULUS = 2**32
_ADVICE = {
    "slot": "let its consumer catch up, or drop it: SELECT pg_drop_replication_slot({literal})",
    "prepared transaction": "COMMIT PREPARED or ROLLBACK PREPARED it, in its database",
    "standby": "end its long queries, or turn hot_standby_feedback off there",
    "session": "end it: SELECT pg_terminate_backend({name})",
}
_ONE = {"transaction IDs": "transaction ID", "multixacts": "multixact"}


class AgeMarks(Struct, frozen=True):
    """Ages in IDs. Raises UsageError for marks between which there is nothing."""

    low: int = LOW
    high: int = HIGH

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < STOP_AGE:
            raise UsageError(
                f"--low {self.low:,} --high {self.high:,}: the low mark must be below the high one,"
                f" and that below {STOP_AGE:,}, where the server stops",
                code="marks",
                hint="the defaults are 1.2e9 and 1.5e9",
            )

    def share(self, age: float) -> float:
        """Return the part of their time that loaders may work: 1 up to the low mark, and down to
        ``SHARE_MIN`` at the high one along a straight line."""
        beyond = (age - self.low) / (self.high - self.low)
        return min(1.0, max(SHARE_MIN, 1.0 - beyond))


def delay_per_s(share: float) -> float:
    """Return the rest after a second of work with which the work is ``share`` of the time."""
    return 0.0 if share <= 0 else (1.0 - share) / share


@dataclass
class Burning:
    """Rates at which IDs are assigned, from the counters of the last readings."""

    seen: deque[tuple[float, int, int]] = field(default_factory=deque)

    def add(self, reading: AgeReading) -> None:
        """Take a reading into account; after a jump of the counter back it begins again."""
        if self.seen and reading.next_xid < self.seen[-1][1]:
            self.seen.clear()
        self.seen.append((reading.at_s, reading.next_xid, reading.next_mxid))
        while reading.at_s - self.seen[0][0] > BURN_S and len(self.seen) > 2:
            self.seen.popleft()

    def xids_s(self) -> float | None:
        """Transaction IDs per second."""
        return self._rate(0, 1)

    def mxids_s(self) -> float | None:
        """Multixacts per second."""
        return self._rate(0, 2)

    def lately(self) -> tuple[float, float]:
        """Return both rates between the last two readings, 0 if there are none."""
        last = len(self.seen) - 2
        return (self._rate(last, 1) or 0.0, self._rate(last, 2) or 0.0) if last >= 0 else (0.0, 0.0)

    def _rate(self, first: int, column: int) -> float | None:
        if len(self.seen) < 2:
            return None
        before, now = self.seen[first], self.seen[-1]
        passed_s = now[0] - before[0]
        grown = (now[column] - before[column]) % _MODULUS
        return grown / passed_s if passed_s > 0 else None


@dataclass
class Decider:
    """Decides by one reading after the other."""

    marks: AgeMarks
    server: str
    version: str
    valid_s: float
    interval_s: float
    paused_at_s: float | None = None
    """Begin of the pause; None: loaders are not paused."""
    burning: Burning = field(default_factory=Burning)

    def decide(self, reading: AgeReading, vacuum: Vacuuming | None = None) -> GovernDecision:
        """Return the decision that ``reading`` calls for."""
        self.burning.add(reading)
        worst = worst_of(reading)
        self._latch(reading, worst)
        kind, share = self._speed(worst)
        pins = self._pins(reading)
        burn = self._burn(reading, worst)
        return GovernDecision(
            schema_version=1,
            decision=kind,
            share=share,
            delay_per_s=round(delay_per_s(share), 4),
            known=True,
            why=self._why(kind, share, worst, pins, burn) + _left_out(vacuum),
            age_s=0.0,
            valid_s=self.valid_s,
            server=self.server,
            version=self.version,
            marks=GovernMarks(low=self.marks.low, high=self.marks.high),
            worst=worst,
            pause=self._pause(reading),
            burn=burn,
            pins=pins,
            databases=reading.databases,
            relations=reading.slow.relations,
            members=reading.slow.members,
            vacuum=vacuum,
            warnings=tuple(self._warnings(reading, vacuum, worst)),
            not_known=reading.slow.not_known,
        )

    def _latch(self, reading: AgeReading, worst: Worst) -> None:
        if self.paused_at_s is None:
            if worst.age >= self.marks.high:
                self.paused_at_s = reading.at_s
        elif worst.age < self.marks.low:
            self.paused_at_s = None

    def _until_next_look(self, worst: Worst) -> float:
        xids_s, mxids_s = self.burning.lately()
        per_s = {"transaction IDs": xids_s, "multixacts": mxids_s}.get(worst.of, 0.0)
        return per_s * self.interval_s

    def _speed(self, worst: Worst) -> tuple[Kind, float]:
        if self.paused_at_s is not None:
            return "pause", 0.0
        share = round(self.marks.share(worst.age + self._until_next_look(worst)), 4)
        return ("go", 1.0) if share >= 1 else ("slow", share)

    def _pause(self, reading: AgeReading) -> Pause | None:
        if self.paused_at_s is None:
            return None
        return Pause(for_s=reading.at_s - self.paused_at_s, until_age=self.marks.low)

    def _pins(self, reading: AgeReading) -> tuple[Pin, ...]:
        near = [each for each in reading.slow.holders if 2 * each.age >= self.marks.low]
        return tuple(self._pin(each) for each in near)

    def _pin(self, holder: HorizonHolder) -> Pin:
        return Pin(
            kind=holder.kind,
            name=holder.name,
            age=holder.age,
            detail=holder.detail,
            blocks=holder.age >= self.marks.low,
            advice=_ADVICE[holder.kind].format(name=holder.name, literal=literal(holder.name)),
        )

    def _burn(self, reading: AgeReading, worst: Worst) -> Burn:
        limits = reading.slow.limits
        xids_s, mxids_s = self.burning.xids_s(), self.burning.mxids_s()
        multixacts = worst.of == "multixacts"
        per_s = {"transaction IDs": xids_s, "multixacts": mxids_s}.get(worst.of)
        forced = limits.multixact_freeze_max_age if multixacts else limits.freeze_max_age
        failsafe = limits.multixact_failsafe_age if multixacts else limits.failsafe_age

        def left(age: float) -> float | None:
            if worst.age >= age:
                return 0.0
            return round((age - worst.age) / per_s, 1) if per_s else None

        return Burn(
            xids_s=None if xids_s is None else round(xids_s, 1),
            mxids_s=None if mxids_s is None else round(mxids_s, 1),
            to_low_s=left(self.marks.low),
            to_high_s=left(self.marks.high),
            to_forced_vacuum_s=left(forced),
            to_failsafe_s=left(max(failsafe, 1.05 * forced)),
            to_stop_s=left(STOP_AGE),
        )

    def _why(
        self, kind: Kind, share: float, worst: Worst, pins: tuple[Pin, ...], burn: Burn
    ) -> str:
        where = f" of database {worst.database}" if worst.database else ""
        said = f"the oldest {_ONE[worst.of]}{where} is {ids(worst.age)} old"
        if worst.of == "multixact members":
            said = f"{percent(worst.share)} of the space for multixact members is in use"
        if kind == "slow":
            said += f", near the high mark: loaders work {percent(share)} of their time"
        if kind == "pause":
            said += f"; loaders pause until it is below {ids(self.marks.low)}"
        elif burn.to_high_s and kind == "slow":
            said += f", and reach the high mark in {duration(burn.to_high_s)} at this rate"
        blocking = next((pin for pin in pins if pin.blocks), None)
        if blocking:
            said += (
                f"; the {blocking.kind} {blocking.name} keeps it from going down, and pausing alone"
                f" does not help: {blocking.advice}"
            )
        return said

    def _warnings(self, reading: AgeReading, vacuum: Vacuuming | None, worst: Worst) -> list[str]:
        limits = reading.slow.limits
        said = []
        prepared = [each for each in reading.slow.holders if each.kind == "prepared transaction"]
        if worst.of != "transaction IDs" and worst.age >= self.marks.low and prepared:
            said.append(
                f"the prepared transaction {prepared[0].name} may keep multixacts, whose holders no"
                " view shows: COMMIT PREPARED or ROLLBACK PREPARED it"
            )
        if vacuum is None and not limits.autovacuum:
            said.append(
                "autovacuum is off, which freezes only what autovacuum_freeze_max_age forces: a"
                " pause may not end; --vacuum lets the governor vacuum"
            )
        for name, age in (
            ("autovacuum_freeze_max_age", limits.freeze_max_age),
            ("autovacuum_multixact_freeze_max_age", limits.multixact_freeze_max_age),
        ):
            if vacuum is None and age >= self.marks.low:
                said.append(
                    f"{name} is {ids(age)}, not below the low mark: autovacuum need not freeze what"
                    " a pause waits for; lower it, or let the governor vacuum (--vacuum)"
                )
        temporary = [each for each in reading.slow.relations if each.temporary]
        if temporary and max(temporary[0].xid_age, temporary[0].mxid_age) >= self.marks.low:
            each = temporary[0]
            said.append(
                f"{each.relation} of the database {each.database} is a temporary table, which only"
                " its session can vacuum: end that session"
            )
        return said


def _left_out(vacuum: Vacuuming | None) -> str:
    if vacuum is None or not vacuum.held:
        return ""
    tables = "1 table is" if vacuum.held == 1 else f"{figure(vacuum.held)} tables are"
    return f"; {tables} left out of --vacuum for now: it would leave them as old as they are"


_ONE["multixact members"] = "multixact member"


def worst_of(reading: AgeReading) -> Worst:
    """Return the measure that is nearest to its end, on the scale of ages."""
    found = []
    for each in reading.databases:
        found.append(_worst("transaction IDs", each.database, each.xid_age))
        found.append(_worst("multixacts", each.database, each.mxid_age))
    if reading.slow.members is not None:
        found.append(_worst("multixact members", None, reading.slow.members.used // 2))
    return max(found, key=lambda each: each.age)


def _worst(of: str, database: str | None, age: int) -> Worst:
    return Worst.model_validate(
        {"of": of, "database": database, "age": age, "share": round(age / STOP_AGE, 4)}
    )


def ids(count: float) -> str:
    """Format a number of IDs as it is spoken of: ``1.2 billion``, ``152 million``."""
    for unit, word in ((1e9, "billion"), (1e6, "million")):
        if count >= unit:
            return f"{float(f'{count / unit:.4g}'):g} {word}"
    return figure(count)


def lines_of_ages(decision: GovernDecision) -> Iterator[str]:
    """Yield the oldest databases and relations, TOAST tables among them, with the ages of their
    transaction IDs and multixacts, and the space for members of multixacts."""
    for database in decision.databases[:_AGES_SHOWN]:
        alone = "" if database.connectable else " (vacuumed by autovacuum alone)"
        yield f"database {database.database}{alone}: {_ages(database)}"
    for relation in decision.relations[:_AGES_SHOWN]:
        kind = "TOAST table of" if relation.toast else "table"
        yield (
            f"{kind} {relation.relation}, database {relation.database}: {_ages(relation)},"
            f" {size(relation.size_bytes)}"
        )
    if decision.members is not None:
        yield f"multixact members: {percent(decision.members.share)} of their space"


def _ages(each: DatabaseAge | RelationAge) -> str:
    xids = "transaction ID" if each.xid_age == 1 else "transaction IDs"
    mxids = "multixact" if each.mxid_age == 1 else "multixacts"
    return f"{ids(each.xid_age)} {xids}, {ids(each.mxid_age)} {mxids}"
