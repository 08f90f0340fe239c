"""The ack ledger against the database: counted in arrays as one would count by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.drill._ledger import WITNESS_COLUMNS, compare, compare_moved
from pgdyno.record.acks import AckLedger, AckOutcome
from pgdyno.record.cut import LedgerCount

Key = tuple[int, int, int, int]
COLUMNS = [("load", "<u4"), ("group", "<u4"), ("client", "<u4"), ("txn", "<u8")]
COLUMNS += [("sent_ns", "<u8"), ("ended_ns", "<u8"), ("outcome", "u1"), ("commits", "u1")]
CUT_NS = 1_000_000_000
MOVED_NS = 3_000_000_000


def ledger_of(records: list[tuple[int, ...]]) -> AckLedger:
    array = np.array(sorted(records), dtype=np.dtype(COLUMNS))
    return AckLedger(Path(), (), array, {}, {}, 0)


OLD_PORT, NEW_PORT = 5001, 5002


def rows_of(keys: list[Key], written_there: Collection[Key] = ()) -> Any:
    """All written on the first server, but for those of ``written_there``."""
    rows = [(*key, NEW_PORT if key in written_there else OLD_PORT) for key in keys]
    return np.array(rows, dtype=np.dtype(WITNESS_COLUMNS))


def compared(
    acks: AckLedger, present: Any, cut_ns: int = CUT_NS, moved_ns: int | None = None
) -> LedgerCount:
    return compare_moved(acks, present, cut_ns, moved_ns=moved_ns or MOVED_NS, port=NEW_PORT)


def naive(
    records: list[tuple[int, ...]], keys: list[Key], cut_ns: int, only_before_cut: bool
) -> LedgerCount:
    """The definitions, word by word."""
    count: Counter[str] = Counter()
    present = Counter(keys)
    count["duplicates"] = sum(times - 1 for times in present.values())
    last_present: dict[tuple[int, ...], int] = {}
    for key in keys:
        last_present[key[:3]] = max(key[3], last_present.get(key[:3], -1))
    lost_ns, last_sign_ns = [], cut_ns
    of_client: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for *key, sent_ns, ended_ns, outcome, commits in records:
        of_client[tuple(key[:3])].append((key[3], ended_ns))
        acked = outcome == AckOutcome.ACKED
        impossible = outcome in (AckOutcome.FAILED, AckOutcome.UNSENT) and commits == 0
        if only_before_cut:
            impossible = impossible or sent_ns > cut_ns
            acked = acked and ended_ns <= cut_ns and not impossible
        is_there = present.pop(tuple(key), 0) > 0  # type: ignore[call-overload]
        if acked:
            last_sign_ns = max(last_sign_ns, ended_ns)
            count["acked"] += 1
            if not is_there:
                count["lost"] += 1
                lost_ns.append(ended_ns)
                count["holes"] += last_present.get(tuple(key[:3]), -1) > key[3]
        elif impossible:
            count["phantoms"] += is_there
        else:
            count["unknown"] += 1
            count["ghost"] += is_there
    for key in present:
        known = of_client[key[:3]]
        began_before = not only_before_cut or all(ended <= cut_ns for _, ended in known)
        if key[3] == max((txn for txn, _ in known), default=-1) + 1 and began_before:
            count["unknown"] += 1
            count["ghost"] += 1
        else:
            count["phantoms"] += 1
    lost_ms = max(last_sign_ns - min(lost_ns), 0) / 1e6 if lost_ns else 0.0
    names = ("acked", "lost", "ghost", "unknown", "holes", "phantoms", "duplicates")
    return LedgerCount(**{name: count[name] for name in names}, lost_ms=lost_ms)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[Key], int, bool]:
    """Clients with their transactions one after the other, and any rows in the database."""
    records: list[tuple[int, ...]] = []
    small = st.integers(0, 2)
    for client in draw(st.sets(st.tuples(small, small, small), max_size=4)):
        now_ns = 0
        for txn in range(draw(st.integers(0, 6))):
            sent_ns = now_ns + draw(st.integers(1, 5))
            now_ns = sent_ns + draw(st.integers(1, 5))
            outcome = draw(st.sampled_from(list(AckOutcome)))
            if outcome is AckOutcome.UNSENT:
                sent_ns = 0
            commits = draw(st.integers(0, 1)) if outcome is not AckOutcome.UNSENT else 0
            records.append((*client, txn, sent_ns, now_ns, int(outcome), commits))
    key = st.tuples(small, small, small, st.integers(0, 7))
    pool = [record[:4] for record in records]
    known = draw(st.lists(st.sampled_from(pool), max_size=20)) if pool else []
    keys = [*known, *draw(st.lists(key, max_size=6))]
    return records, keys, draw(st.integers(0, 60)), draw(st.booleans())


@given(histories())
def test_it_agrees_with_the_definitions(
    history: tuple[list[tuple[int, ...]], list[Key], int, bool],
) -> None:
    records, keys, cut_ns, only_before_cut = history
    found = compare(ledger_of(records), rows_of(keys), cut_ns, only_before_cut=only_before_cut)
    assert found == naive(records, keys, cut_ns, only_before_cut)


@given(histories(), st.integers(0, 10))
def test_a_prefix_of_each_client_is_loss_and_nothing_worse(
    history: tuple[list[tuple[int, ...]], list[Key], int, bool], kept: int
) -> None:
    records = [(*record[:6], int(AckOutcome.ACKED), 1) for record in history[0]]
    keys: list[Key] = [record[:4] for record in records if record[3] < kept]  # type: ignore[misc]
    found = compare(ledger_of(records), rows_of(keys), CUT_NS)
    assert found.inconsistent == found.ghost == found.unknown == 0
    assert found.lost == len(records) - len(keys)


def record(txn: int, outcome: AckOutcome, *, ended_ms: int = 900, commits: int = 1) -> Any:
    ended_ns = ended_ms * 1_000_000
    return (0, 0, 0, txn, ended_ns - 1000, ended_ns, int(outcome), commits)


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ([0, 1, 2], LedgerCount(acked=3)),
        ([0], LedgerCount(acked=3, lost=2, lost_ms=80.0)),
        ([0, 2], LedgerCount(acked=3, lost=1, lost_ms=80.0, holes=1)),
        ([0, 0, 1, 2], LedgerCount(acked=3, duplicates=1)),
        ([0, 1, 2, 3], LedgerCount(acked=3, ghost=1, unknown=1)),
        ([0, 1, 2, 4], LedgerCount(acked=3, phantoms=1)),
    ],
)
def test_what_is_called_what(present: list[int], wanted: LedgerCount) -> None:
    records = [record(txn, AckOutcome.ACKED, ended_ms=910 + 10 * txn) for txn in range(3)]
    assert compare(ledger_of(records), rows_of([(0, 0, 0, t) for t in present]), CUT_NS) == wanted


def test_after_the_cut_nothing_is_owed_and_nothing_may_be() -> None:
    records = [
        record(0, AckOutcome.ACKED, ended_ms=990),
        (0, 0, 0, 1, 995_000_000, 1_005_000_000, int(AckOutcome.ACKED), 1),
        record(2, AckOutcome.ACKED, ended_ms=1020),
    ]
    ledger, keys = ledger_of(records), [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2)]
    lasting = compare(ledger, rows_of(keys[:1]), CUT_NS)
    assert (lasting.acked, lasting.lost, lasting.lost_ms) == (3, 2, 15.0)
    found = compare(ledger, rows_of(keys[:1]), CUT_NS, only_before_cut=True)
    assert found == LedgerCount(acked=1, unknown=1)
    found = compare(ledger, rows_of(keys), CUT_NS, only_before_cut=True)
    assert found == LedgerCount(acked=1, unknown=1, ghost=1, phantoms=1)


def moved(
    client: int, txn: int, sent_s: float, outcome: AckOutcome = AckOutcome.ACKED
) -> tuple[int, ...]:
    sent_ns = round(sent_s * 1e9)
    return (0, 0, client, txn, sent_ns, sent_ns + 1_000_000, outcome, 0)


def test_commits_that_a_failover_lost_are_no_holes() -> None:
    """Three of the old primary's, of which the standby had one, and two of the new primary's."""
    acks = ledger_of([moved(0, txn, sent_s) for txn, sent_s in enumerate((0.5, 0.7, 0.9, 3.5, 4))])
    present = rows_of([(0, 0, 0, 0), (0, 0, 0, 3), (0, 0, 0, 4)])
    count = compared(acks, present)
    assert (count.acked, count.lost, count.inconsistent) == (3, 2, 0)
    assert count.lost_ms == pytest.approx(1000 - 701)
    assert compare(acks, present, CUT_NS).holes == 2


def test_what_is_missing_on_one_side_of_a_failover_is_a_hole_there() -> None:
    acks = ledger_of([moved(0, txn, sent_s) for txn, sent_s in enumerate((0.5, 0.7, 3.5, 4.0))])
    for missing in (0, 2):
        keys = [(0, 0, 0, txn) for txn in range(4) if txn != missing]
        count = compared(acks, rows_of(keys))
        assert (count.lost, count.holes) == (1, 1)


def test_commits_on_the_new_primary_while_the_old_one_is_ended_are_its_own() -> None:
    """The third was acknowledged by the old primary, the fourth by the new one just before the end
    of the old one was known."""
    acks = ledger_of([moved(0, txn, sent_s) for txn, sent_s in enumerate((0.5, 0.7, 2.8, 2.9, 4))])
    keys = [(0, 0, 0, txn) for txn in (0, 3, 4)]
    count = compared(acks, rows_of(keys, keys[1:]))
    assert (count.lost, count.inconsistent) == (2, 0)
    assert compared(acks, rows_of(keys)).holes == 2
    del keys[1]
    count = compared(acks, rows_of(keys, keys[1:]))
    assert (count.lost, count.inconsistent) == (3, 0)


def test_what_the_fault_interrupted_may_be_there_and_what_failed_later_may_not() -> None:
    records = [
        moved(0, 0, 0.5),
        moved(0, 1, 0.999, AckOutcome.UNKNOWN),
        moved(0, 2, 3.2, AckOutcome.FAILED),
        moved(0, 3, 3.5),
    ]
    keys = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 3), (0, 0, 0, 4)]
    count = compared(ledger_of(records), rows_of(keys))
    assert (count.lost, count.unknown, count.ghost, count.phantoms) == (0, 2, 2, 0)
    count = compared(ledger_of(records), rows_of([*keys, (0, 0, 0, 2)]))
    assert count.phantoms == 1


@given(histories())
def test_a_load_that_moved_before_it_began_is_of_one_server(
    history: tuple[list[tuple[int, ...]], list[Key], int, bool],
) -> None:
    records, keys, cut_ns, _ = history
    acks, present = ledger_of(records), rows_of(keys)
    never = compared(acks, present, cut_ns, 1 << 62)
    assert never == compare(acks, present, cut_ns)
