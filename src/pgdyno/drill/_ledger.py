"""The ack ledger against what is in the database: what was lost, and what should not be there.

What the clients know is in the ack ledger; what the server kept is the witnesses, a row for each
transaction that committed. :func:`judge` compares them, and touches neither.

Each transaction of the ledger is one of three:

- *acknowledged*: the server said that all of it is committed. Absent, it is lost.
- *impossible*: it failed before anything was committed, or it never left. Present, it is a phantom.
- *unknown*: the connection ended while something was under way that could commit. Present or
  absent, nothing can be held against the server; present ones are called ghosts.

A client has at most one transaction without a record: the one that was under way when the load
ended. It is unknown as well.

A client's transactions follow each other, so that what is left after a crash has to be a prefix of
them: acknowledged, absent and followed by one that is present is a hole. Between clients there is
no such order, for acknowledgements are not in the order of commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgdyno.drill.model import LedgerCount
from pgdyno.record.acks import AckLedger, Outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PRESENT = [("load", "<i8"), ("group", "<i8"), ("client", "<i8"), ("txn", "<i8")]
"""Columns of the witnesses that were found; the first three number loads, groups and clients as the
ack ledger does."""
_ACKED, _IMPOSSIBLE, _UNKNOWN = 1, 2, 3


def judge(
    acks: AckLedger, present: NDArray[np.void], cut_ns: int, *, only_before_cut: bool = False
) -> LedgerCount:
    """Count what is lost, ghost, unknown, and what must not be.

    ``present`` has the columns of :data:`PRESENT`, in any order. ``cut_ns`` is when the fault
    struck, in monotonic ns; a server that acknowledged something after that lived until then.
    ``only_before_cut``: the database is as it was at the cut, though the load went on: what was
    acknowledged after it does not count, and what began after it cannot be.
    """
    import numpy as np

    records = acks.records
    clients, client_of_record, client_of_row = _number_clients(records, present)
    span = 2 + max((int(part["txn"].max()) for part in (records, present) if len(part)), default=0)
    keys = client_of_record * span + records["txn"].astype(np.int64)
    rows = client_of_row * span + present["txn"].astype(np.int64)
    found = np.unique(rows)
    is_found = np.isin(keys, found)
    fate = _fates(records, cut_ns, only_before_cut)
    lost = (fate == _ACKED) & ~is_found
    strangers = found[~np.isin(found, keys)]
    in_flight = _may_be_in_flight(records, client_of_record, clients, cut_ns, only_before_cut)
    open_at_end = int(np.isin(strangers, np.arange(clients) * span + in_flight).sum())
    last_found = np.full(clients, -1, dtype=np.int64)
    np.maximum.at(last_found, found // span, found % span)
    followed = last_found[client_of_record] > records["txn"].astype(np.int64)
    ended_ns = records["ended_ns"].astype(np.int64)
    oldest_ns = int(ended_ns[lost].min()) if lost.any() else cut_ns
    last_sign_ns = int(ended_ns[fate == _ACKED].max(initial=cut_ns))
    return LedgerCount(
        acked=int((fate == _ACKED).sum()),
        lost=int(lost.sum()),
        lost_ms=max(last_sign_ns - oldest_ns, 0) / 1e6 if lost.any() else 0.0,
        ghost=int(((fate == _UNKNOWN) & is_found).sum()) + open_at_end,
        unknown=int((fate == _UNKNOWN).sum()) + open_at_end,
        holes=int((lost & followed).sum()),
        phantoms=int(((fate == _IMPOSSIBLE) & is_found).sum()) + len(strangers) - open_at_end,
        duplicates=len(rows) - len(found),
    )


def _number_clients(
    records: NDArray[np.void], present: NDArray[np.void]
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """How many clients there are, and the number of that of each record and of each row."""
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


def _fates(records: NDArray[np.void], cut_ns: int, only_before_cut: bool) -> NDArray[Any]:
    """Acknowledged, impossible or unknown, for each record."""
    import numpy as np

    acked = records["outcome"] == Outcome.ACKED
    in_doubt = (records["outcome"] == Outcome.UNKNOWN) | (records["commits"] > 0)
    fate = np.where(acked, _ACKED, np.where(in_doubt, _UNKNOWN, _IMPOSSIBLE))
    if only_before_cut:
        fate[acked & (records["ended_ns"].astype(np.int64) > cut_ns)] = _UNKNOWN
        fate[records["sent_ns"].astype(np.int64) > cut_ns] = _IMPOSSIBLE
    return fate


def _may_be_in_flight(
    records: NDArray[np.void],
    client_of_record: NDArray[np.int64],
    clients: int,
    cut_ns: int,
    only_before_cut: bool,
) -> NDArray[np.int64]:
    """For each client, the number of the transaction that may be in flight without a record.

    -1, which is nobody's number, for a client whose next transaction began after the cut.
    """
    import numpy as np

    following = np.zeros(clients, dtype=np.int64)
    np.maximum.at(following, client_of_record, records["txn"].astype(np.int64) + 1)
    if only_before_cut:
        ended_ns = np.zeros(clients, dtype=np.int64)
        np.maximum.at(ended_ns, client_of_record, records["ended_ns"].astype(np.int64))
        following[ended_ns > cut_ns] = -1
    return following
