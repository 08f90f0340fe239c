"""The comparison of the ack ledger with the database: lost and unexpected transactions.

The ack ledger holds what the clients know; the witnesses, a row for each committed transaction,
show what the server kept. :func:`compare` compares them and changes neither.

Each transaction of the ledger is one of three:

- *acknowledged*: the server reported that all of it is committed. If absent, it is lost.
- *impossible*: it failed before anything was committed, or was never sent. If present, it is a
  phantom.
- *unknown*: the connection ended while something was under way that could commit. It may be present
  or absent; present ones are called ghosts.

A client has at most one transaction without a record: the one that was under way when the load
ended. It is unknown as well.

A client's transactions follow each other, so those present after a crash must be a prefix of them:
an acknowledged, absent transaction before a present one is a hole. Between clients there is no such
order, because acknowledgements do not arrive in the order of commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.record.acks import AckLedger, AckOutcome
from pgdyno.record.cut import LedgerCount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WITNESS_COLUMNS = [
    ("load", "<i8"),
    ("group", "<i8"),
    ("client", "<i8"),
    ("txn", "<i8"),
    ("port", "<i8"),
]
"""Columns of the witnesses found; the first three number loads, groups and clients as the ack
ledger does, and the last is the port of the server that wrote it."""
_SUMS = ("lost", "ghost", "unknown", "holes", "phantoms", "duplicates")
_ACKED, _IMPOSSIBLE, _UNKNOWN = 1, 2, 3


def compare(
    acks: AckLedger, present: NDArray[np.void], cut_ns: int, *, only_before_cut: bool = False
) -> LedgerCount:
    """Count lost, ghost, unknown and inconsistent transactions.

    ``present`` has the columns of :data:`WITNESS_COLUMNS`, in any order. ``cut_ns`` is the time of
    the fault, in monotonic ns; a server that acknowledged something later lived until then.
    ``only_before_cut``: the load went on after the cut, but the database is in its state at the
    cut: later acknowledgements do not count, and transactions that began later are impossible.
    """
    import numpy as np

    records = acks.records
    clients, client_of_record, client_of_row = _number_clients(records, present)
    span = 2 + max((int(part["txn"].max()) for part in (records, present) if len(part)), default=0)
    keys = client_of_record * span + records["txn"].astype(np.int64)
    rows = client_of_row * span + present["txn"].astype(np.int64)
    found = np.unique(rows)
    is_found = np.isin(keys, found)
    status = _statuses(records, cut_ns, only_before_cut)
    lost = (status == _ACKED) & ~is_found
    unrecorded = found[~np.isin(found, keys)]
    in_flight = _may_be_in_flight(records, client_of_record, clients, cut_ns, only_before_cut)
    open_at_end = int(np.isin(unrecorded, np.arange(clients) * span + in_flight).sum())
    last_found = np.full(clients, -1, dtype=np.int64)
    np.maximum.at(last_found, found // span, found % span)
    followed = last_found[client_of_record] > records["txn"].astype(np.int64)
    ended_ns = records["ended_ns"].astype(np.int64)
    oldest_ns = int(ended_ns[lost].min()) if lost.any() else cut_ns
    last_ack_ns = int(ended_ns[status == _ACKED].max(initial=cut_ns))
    return LedgerCount(
        acked=int((status == _ACKED).sum()),
        lost=int(lost.sum()),
        lost_ms=max(last_ack_ns - oldest_ns, 0) / 1e6 if lost.any() else 0.0,
        ghost=int(((status == _UNKNOWN) & is_found).sum()) + open_at_end,
        unknown=int((status == _UNKNOWN).sum()) + open_at_end,
        holes=int((lost & followed).sum()),
        phantoms=int(((status == _IMPOSSIBLE) & is_found).sum()) + len(unrecorded) - open_at_end,
        duplicates=len(rows) - len(found),
    )


def compare_moved(
    acks: AckLedger, present: NDArray[np.void], cut_ns: int, *, moved_ns: int, port: int
) -> LedgerCount:
    """Count as :func:`compare` for a load that moved from one server to another, at ``port``.

    What a client did on the second server follows what it did on the first, of which the last may
    be missing: the two are compared as if two clients had done them. A client's part on the second
    begins with the first witness written there, or with what it sent after ``moved_ns``, when the
    first server had ended. ``acked`` and ``lost_ms`` are of the first; whatever is lost on the
    second is lost too.
    """
    import numpy as np

    records = acks.records.copy()
    later = records["sent_ns"].astype(np.int64) >= moved_ns
    there = present["port"] == port
    clients, client_of_record, client_of_row = _number_clients(records, present)
    first = np.full(clients, np.iinfo(np.int64).max)
    np.minimum.at(first, client_of_record[later], records["txn"][later].astype(np.int64))
    np.minimum.at(first, client_of_row[there], present["txn"][there])
    of_second = records["txn"].astype(np.int64) >= first[client_of_record]
    row_of_second = present["txn"].astype(np.int64) >= first[client_of_row]
    before = compare(replace(acks, records=records[~of_second]), present[~row_of_second], cut_ns)
    after = compare(replace(acks, records=records[of_second]), present[row_of_second], moved_ns)
    sums = {name: getattr(before, name) + getattr(after, name) for name in _SUMS}
    return before.model_copy(update=sums)


def _number_clients(
    records: NDArray[np.void], present: NDArray[np.void]
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of clients, and the index of the client of each record and each row."""
    import numpy as np

    columns: list[NDArray[np.int64]] = [
        np.concatenate([part[name].astype(np.int64) for part in (records, present)])
        for name in ("load", "group", "client")
    ]
    if not len(columns[0]):
        return 0, np.empty(0, np.int64), np.empty(0, np.int64)
    clients, numbers = np.unique(np.stack(columns), axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    return clients.shape[1], numbers[: len(records)], numbers[len(records) :]


def _statuses(records: NDArray[np.void], cut_ns: int, only_before_cut: bool) -> NDArray[Any]:
    """Return for each record: acknowledged, impossible or unknown."""
    import numpy as np

    acked = records["outcome"] == AckOutcome.ACKED
    may_commit = (records["outcome"] == AckOutcome.UNKNOWN) | (records["commits"] > 0)
    status = np.where(acked, _ACKED, np.where(may_commit, _UNKNOWN, _IMPOSSIBLE))
    if only_before_cut:
        status[acked & (records["ended_ns"].astype(np.int64) > cut_ns)] = _UNKNOWN
        status[records["sent_ns"].astype(np.int64) > cut_ns] = _IMPOSSIBLE
    return status


def _may_be_in_flight(
    records: NDArray[np.void],
    client_of_record: NDArray[np.int64],
    clients: int,
    cut_ns: int,
    only_before_cut: bool,
) -> NDArray[np.int64]:
    """Return for each client the number of the transaction that may lack a record.

    -1, which no transaction has, for a client whose next transaction began after the cut.
    """
    import numpy as np

    following = np.zeros(clients, dtype=np.int64)
    np.maximum.at(following, client_of_record, records["txn"].astype(np.int64) + 1)
    if only_before_cut:
        ended_ns = np.zeros(clients, dtype=np.int64)
        np.maximum.at(ended_ns, client_of_record, records["ended_ns"].astype(np.int64))
        following[ended_ns > cut_ns] = -1
    return following
