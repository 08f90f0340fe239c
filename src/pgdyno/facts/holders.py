"""The holder of the oldest xmin of the database under load: it holds back vacuum.

Vacuum removes a dead row, and a page is pruned of one, only if no snapshot may still see it. The
oldest xmin is that of a session, a prepared transaction, a replication slot or, with
hot_standby_feedback, a standby. At each moment some transaction holds it; what counts is one that
keeps it while the load goes on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.numbers import duration
from pgdyno.record.finding import Lack, Skip

KEPT_S_MIN = 4.0
KEPT_SHARE = 0.5
"""A holder that kept its xmin for this time, and this part of the period, holds back vacuum.
Calibrated by injection: a session left in a transaction during 18 s of TPC-B at scale 1 made a
transaction access 2 to 3 times as many pages at the end; without it, none was seen for 2 s."""


class XminHolder(Struct, frozen=True):
    """The last holder of the oldest xmin in a period."""

    kind: str
    """backend, prepared, slot or standby."""
    name: str
    about: str
    age: float
    """Transaction IDs assigned since the xmin that it holds."""
    transaction_s: float | None
    """Age of its transaction; None for slots and standbys."""
    seen_s: float
    """Time up to the end of the period for which it was the holder without a break."""
    assigned: float
    """Transaction IDs assigned within that time."""

    @property
    def kept(self) -> bool:
        """True if it kept one xmin for all of ``seen_s``, not a new one time and again."""
        return self.assigned > 0 and self.age >= 0.9 * self.assigned

    def holds_back(self, s: Facts) -> bool:
        """True if it kept its xmin for a considerable part of the period.

        Not for autovacuum's own ANALYZE, whose snapshot is old only where its cost delay is long.
        """
        long = self.seen_s >= max(KEPT_S_MIN, KEPT_SHARE * s.seconds)
        return self.kept and long and not self.about.endswith("autovacuum worker")

    @property
    def in_words(self) -> str:
        """The holder in a sentence."""
        about = f" ({self.about})" if self.about else ""
        match self.kind:
            case "prepared":
                return f'the prepared transaction "{self.name}" of {self.about or "another role"}'
            case "slot":
                return f'the replication slot "{self.name}"{about}'
            case "standby":
                return f'the feedback of the standby "{self.name}"'
            case _:
                return f"the session of process {self.name}{about}"

    @property
    def held_in_words(self) -> str:
        """The time for which it has held it, in a sentence."""
        return duration(self.seen_s if self.transaction_s is None else self.transaction_s)


def last_holder(s: Facts) -> XminHolder | None:
    """Return the holder at the end of the period, None if nothing held an xmin then."""
    rows = s.run.series("metric_age", s.slice_ids, where={"database": _database(s)})
    if not len(rows["at_ms"]):
        raise Skip("who holds the oldest xmin was not recorded")
    keys = list(zip(rows["xmin_holder"], rows["xmin_holder_name"], strict=True))
    kind, name = keys[-1]
    if not sees_all_sessions(s):
        raise Skip(
            "this role may not see the snapshots of other roles' sessions (pg_monitor may)",
            Lack.RIGHTS,
        )
    if kind is None:
        return None
    first = len(keys)
    while first > 0 and keys[first - 1] == (kind, name):
        first -= 1
    held_ms = rows["xmin_held_ms"][-1]
    ages = rows["xmin_age"]
    return XminHolder(
        kind=str(kind),
        name=str(name),
        about=str(rows["xmin_holder_about"][-1] or ""),
        age=float(ages[-1]),
        transaction_s=float(held_ms) / 1000 if held_ms == held_ms else None,
        seen_s=float(rows["at_ms"][-1] - rows["at_ms"][first]) / 1000,
        assigned=ids_assigned(rows["xid_age"][first:]),
    )


def sees_all_sessions(s: Facts) -> bool:
    """True unless the role is known to lack pg_monitor."""
    return s.run.run.server.get("monitor") is not False


def ids_assigned(ages: Any) -> float:
    """Return the IDs assigned while an age was sampled; it falls when rows are frozen."""
    return sum(max(0.0, float(after - before)) for before, after in pairwise(ages))


def _database(s: Facts) -> str:
    database = s.run.run.server.get("database")
    if not database:
        raise Skip("the name of the database under load was not recorded")
    return str(database)


def held_back(s: Facts) -> bool:
    """True if someone is known to have held back vacuum for much of the period."""
    try:
        holder = last_holder(s)
    except Skip:
        return False
    return holder is not None and holder.holds_back(s)
