"""Failed transactions of some slices by SQLSTATE, against the allowed share, and refused
connections by the layer that refused them.

Errors that a script expects are within what was done, and so are transactions that were tried again
and then succeeded.

Refusals of all layers have SQLSTATE 53300 or 08P01, so only the message tells them apart. The texts
are those of PostgreSQL's postinit.c and procarray.c, pgpool-II's child.c (with a capital letter)
and PgBouncer's client.c; what PgBouncer passes on of the server's refusal is the server's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from pgdyno.numbers import percent
from pgdyno.record import ErrorTotal, RunFile
from pgdyno.spec.load import MAX_FAILURES_DEFAULT, FailuresMax

_CODES = ("53300", "08P01")
_TEXTS = {
    "sorry, too many clients already": ("PostgreSQL", "max_connections"),
    "remaining connection slots are reserved": (
        "PostgreSQL",
        "max_connections, less the reserved ones",
    ),
    "too many connections for role": ("PostgreSQL", "CONNECTION LIMIT of the role"),
    "too many connections for database": ("PostgreSQL", "CONNECTION LIMIT of the database"),
    "Sorry, too many clients already": ("pgpool-II", "num_init_children"),
    "no more connections allowed (max_db_client_connections)": (
        "PgBouncer",
        "max_db_client_connections",
    ),
    "no more connections allowed (max_user_client_connections)": (
        "PgBouncer",
        "max_user_client_connections",
    ),
    "no more connections allowed": ("PgBouncer", "max_client_conn"),
}
"""Part of a message → the layer that says so, and its limit; the first that fits."""


class FailedTransactions(Struct, frozen=True):
    """Failed transactions among those that ended, and the most frequent error."""

    count: int
    ended: int
    top: ErrorTotal | None
    by_sqlstate: Mapping[str, int] = field(default_factory=dict)
    """Errors that ended a transaction, the most frequent first."""

    @property
    def share(self) -> float:
        """Share of the finished transactions; 0 if none finished."""
        return self.count / self.ended if self.ended else 0.0

    @property
    def error(self) -> str:
        """The most frequent error in words; '' without one."""
        return self.top.words if self.top else ""

    def __str__(self) -> str:
        if not self.count:
            return f"0 of {self.ended:,}"
        error = f", most often {self.error}" if self.top else ""
        return f"{self.count:,} of {self.ended:,} ({percent(self.share)}){error}"

    def to_json(self) -> dict[str, object]:
        """Return the form in results."""
        return {
            "count": self.count,
            "share": round(self.share, 6),
            "by_sqlstate": dict(self.by_sqlstate),
            "sqlstate": self.top.sqlstate if self.top else None,
            "message": self.top.message if self.top else None,
        }


def failures(
    run: RunFile, slice_ids: Collection[int] | None, group: str | None = None
) -> FailedTransactions:
    """Return the failures in the slices, or in the whole run; of one client group if given."""
    ledger = run.ledger(slice_ids, group=group)
    if not ledger.failed:
        return FailedTransactions(0, ledger.done, None)
    kinds = [e for e in run.errors(slice_ids) if group in (None, e.client_group)]
    final = [e for e in kinds if not (e.expected or e.retried) and e.script]
    counts: Counter[str] = Counter()
    for each in final:
        counts[each.sqlstate] += each.count
    top = next(iter(final), None)
    return FailedTransactions(
        ledger.failed, ledger.done + ledger.failed, top, dict(counts.most_common())
    )


def failures_by_group(
    run: RunFile, slice_ids: Collection[int] | None
) -> dict[str, FailedTransactions]:
    """Return the failures of each client group; empty if there is only one group."""
    names = dict.fromkeys(row.client_group for row in run.group_intervals(slice_ids))
    return {name: failures(run, slice_ids, name) for name in names} if len(names) > 1 else {}


def failures_max(run: RunFile) -> FailuresMax:
    """Return the failures that the run's spec allows."""
    return FailuresMax.parse(
        str((run.run.spec.get("load") or {}).get("max_failures", MAX_FAILURES_DEFAULT))
    )


def too_many(failed: FailedTransactions, limit: FailuresMax) -> bool:
    """True if more failed than allowed."""
    return not limit.allows(failed.count, failed.ended)


def not_comparable(
    run: RunFile, slices_a: Collection[int], slices_b: Collection[int]
) -> str | None:
    """Return the reason if failures, of all clients or of a group, make two sides incomparable.

    What fails costs the server other work than what succeeds, so that neither side's figures say
    what the other's would.
    """
    limit = failures_max(run)
    of_groups_a, of_groups_b = (failures_by_group(run, ids) for ids in (slices_a, slices_b))
    for group, a in of_groups_a.items():
        b = of_groups_b.get(group)
        if b is not None and _differ(a, b, limit):
            return f"failures of client group {group} differ: {b} with the change, {a} without"
    a, b = failures(run, slices_a), failures(run, slices_b)
    return f"failures differ: {b} with the change, {a} without" if _differ(a, b, limit) else None


def _differ(a: FailedTransactions, b: FailedTransactions, limit: FailuresMax) -> bool:
    if limit.count is not None:
        return abs(b.count - a.count) > limit.count
    return abs(b.share - a.share) > (limit.share or 0.0)


class RefusedConnections(Struct, frozen=True):
    """Connections that one layer refused because of one limit."""

    layer: str
    limit: str
    count: int = 0

    @property
    def is_of_server(self) -> bool:
        """True if the server itself refused."""
        return self.layer == "PostgreSQL"

    @property
    def words(self) -> str:
        """The layer with its limit."""
        return f"{self.layer} ({self.limit})"


def refusal_in(error: ErrorTotal) -> RefusedConnections | None:
    """Return who refused a connection, if that is the error."""
    if error.sqlstate not in _CODES:
        return None
    found = (
        RefusedConnections(*named, error.count)
        for text, named in _TEXTS.items()
        if text in error.message
    )
    return next(found, None)


def refusals_in(errors: Iterable[ErrorTotal]) -> list[RefusedConnections]:
    """Return the refusals of each layer and limit, the most frequent first."""
    counts = Counter[tuple[str, str]]()
    for error in errors:
        if (refusal := refusal_in(error)) is not None:
            counts[refusal.layer, refusal.limit] += refusal.count
    return [
        RefusedConnections(layer, limit, count) for (layer, limit), count in counts.most_common()
    ]
