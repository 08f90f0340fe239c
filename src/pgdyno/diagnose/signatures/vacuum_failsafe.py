"""The failsafe of vacuum: tables so old that vacuum gives up everything except freezing.

Trigger: a vacuum was seen on a table, or its TOAST table, whose oldest transaction ID or multixact
is older than vacuum_failsafe_age or vacuum_multixact_failsafe_age. Threshold: the settings, 1.6
billion by default, at least 1.05 times the age at which freezing is forced
(vacuum_xid_failsafe_check in vacuum.c; 14 and later). Such a vacuum goes on without cost delay and
without indexes, and so takes what it gets from the disk; dead rows stay in the indexes until a
later one.

Look-alikes: how old the database is, and what keeps it so, is the finding "transaction-ids"; the
throughput that vacuum costs is "vacuum-load".
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.vacuums import limits_of, vacuumed_in_failsafe
from pgdyno.numbers import figure, listed


def examine(s: Situation) -> Found | Cleared:
    """Compare the ages of the tables that vacuums were seen on with the failsafe."""
    limits = limits_of(s.settings.number)
    seen = vacuumed_in_failsafe(s.run, s.slice_ids, limits)
    evidence = [
        s.evidence("samples of vacuums in the failsafe", sum(seen.values()), "count", "at least 1"),
        s.evidence("failsafe of transaction IDs", limits[0], "count"),
        s.evidence("failsafe of multixacts", limits[1], "count"),
    ]
    if not seen:
        return Cleared("no vacuum was seen on a table older than the failsafe", evidence)
    return Found(
        sentence=(
            f"vacuum of {listed(sorted(seen))} ran in the failsafe, without cost delay and without"
            f" indexes: older than {figure(limits[0])} transaction IDs, or {figure(limits[1])}"
            " multixacts"
        ),
        liftable=0.0,
        confidence=0.9,
        evidence=evidence,
        causes=("transaction-ids", "xmin-pinned", "autovacuum-slow"),
        advice=(
            "leave it running, since it postpones the stop; once the age is low again, VACUUM these"
            " tables for their indexes, and find out why autovacuum did not freeze them before"
        ),
    )


SIGNATURE = Signature(
    id="vacuum-failsafe",
    false_positives="a failsafe that was set low on purpose",
    examine=examine,
)
