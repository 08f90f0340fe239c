"""System catalogues of the database under load, and the slots that keep their dead rows.

A temporary table, or any DDL, writes rows of pg_class, pg_attribute, pg_type and pg_depend, and
leaves them dead when it is dropped. They are removed as the rows of other tables are, and kept in
addition for logical slots (catalog_xmin), whose consumers decode old changes by old catalogues.
"""

from __future__ import annotations

from itertools import groupby

from msgspec import Struct

from pgdyno.facts.holders import XminHolder, ids_assigned, last_holder
from pgdyno.facts.slices import Facts
from pgdyno.json_types import Row
from pgdyno.record.finding import Skip


class Catalogue(Struct, frozen=True):
    """A catalogue's rows over the period."""

    relation: str
    live: int
    dead: int
    """At the end."""
    made_dead: int
    """Rows updated or deleted in the period."""
    vacuums: int
    """Vacuums of it that ended in the period."""

    @property
    def dead_ratio(self) -> float:
        """Dead rows / live rows."""
        return self.dead / max(1, self.live)


def catalogues(s: Facts) -> list[Catalogue]:
    """Return the catalogues, that with most dead rows first. Raises Skip if not recorded."""
    rows = s.run.samples("metric_catalogue", s.slice_ids)
    if not rows:
        raise Skip("dead rows of the system catalogues were not recorded")
    rows.sort(key=lambda row: (str(row["relation"]), row["at_ms"]))
    found = [_catalogue(name, list(of)) for name, of in groupby(rows, lambda row: row["relation"])]
    return sorted(found, key=lambda each: -each.dead)


def _catalogue(name: str, rows: list[Row]) -> Catalogue:
    first, last = rows[0], rows[-1]

    def rise(*columns: str) -> int:
        return int(sum(max(0, (last[each] or 0) - (first[each] or 0)) for each in columns))

    return Catalogue(
        relation=name,
        live=int(last["n_live_tup"] or 0),
        dead=int(last["n_dead_tup"] or 0),
        made_dead=rise("n_tup_upd", "n_tup_del"),
        vacuums=rise("vacuum_count", "autovacuum_count"),
    )


def catalogue_holder(s: Facts) -> XminHolder | None:
    """Return the session, transaction, slot or standby that kept dead rows of catalogues for a
    considerable part of the period: the oldest; None if none is known to have."""
    found = [_slot(s), _xmin(s)]
    known = [holder for holder in found if holder is not None and holder.holds_back(s)]
    return max(known, key=lambda holder: holder.age, default=None)


def _xmin(s: Facts) -> XminHolder | None:
    try:
        return last_holder(s)
    except Skip:
        return None


def _slot(s: Facts) -> XminHolder | None:
    """Return the slot with the oldest catalog_xmin at the end."""
    rows = [
        row
        for row in s.run.samples("metric_slot", s.slice_ids)
        if row["catalog_xmin_age"] is not None
    ]
    if not rows:
        return None
    oldest = max(rows, key=lambda row: (row["at_ms"], row["catalog_xmin_age"]))
    mine = [row for row in rows if row["slot_name"] == oldest["slot_name"]]
    ages = s.run.samples("metric_age", s.slice_ids, {"database": s.run.run.server.get("database")})
    xids = [row["xid_age"] for row in ages if row["at_ms"] >= mine[0]["at_ms"]]
    state = "active" if oldest["active"] else "inactive"
    return XminHolder(
        kind="slot",
        name=str(oldest["slot_name"]),
        about=f"{oldest['slot_type']}, {state}",
        age=float(oldest["catalog_xmin_age"]),
        transaction_s=None,
        seen_s=(oldest["at_ms"] - mine[0]["at_ms"]) / 1000,
        assigned=ids_assigned([age for age in xids if age is not None]),
    )
