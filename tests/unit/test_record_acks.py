"""Reading ack ledgers: torn ends are dropped and counted, everything else that is wrong is said."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.record import read_acks

FIELDS = [["txn", "<u8", 0], ["ended_ns", "<u8", 8], ["client", "<u4", 16], ["row", "<u4", 20]]
FIELDS += [["number", "<u4", 24], ["outcome", "u1", 28], ["column", "u1", 29]]
RECORD = struct.Struct("<QQIIIBB2x")
Given = tuple[int, int, int]


def contents(records: Iterable[Given], *, thread: int = 0, first_number: int = 0) -> bytes:
    """A file with records of (row, client, transaction)."""
    header = {
        "thread": thread,
        "threads": 2,
        "seed": 1,
        "clock": {"monotonic_ns": 1000, "unix_ns": 5000},
        "scripts": [
            {"row": 0, "group": "web", "script": "a", "statements": 1},
            {"row": 1, "group": "batch", "script": "b", "statements": 1},
        ],
        "outcomes": {"acked": 1, "failed": 2},
        "columns": {"done": 1, "failed": 2},
        "fields": FIELDS,
    }
    text = json.dumps(header).encode()
    start = struct.pack("<8sIII", b"pgdynoAL", 1, RECORD.size, 20 + len(text)) + text
    body = [
        RECORD.pack(txn, 10 * txn, client, row, number, 1, 1)
        for number, (row, client, txn) in enumerate(records, first_number)
    ]
    return start + b"".join(body)


def write(folder: Path, data: bytes, name: str = "7-0.acks") -> Path:
    (folder / name).write_bytes(data)
    return folder


def problem(folder: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        read_acks(folder)
    return f"{refusal.value.code}: {refusal.value}"


def test_files_of_threads_are_put_together_in_the_clients_order(tmp_path: Path) -> None:
    write(tmp_path, contents([(0, 1, 0), (0, 0, 1), (1, 0, 0)]), "7-0.acks")
    write(tmp_path, contents([(0, 0, 0), (0, 1, 1)], thread=1), "7-1.acks")
    ledger = read_acks(tmp_path)
    assert ledger.problems() == []
    assert ledger.records["client"].tolist() == [0, 0, 1, 1, 0]
    assert ledger.records["txn"].tolist() == [0, 1, 0, 1, 0]
    assert ledger.records["group"].tolist() == [0, 0, 0, 0, 1]
    assert ledger.outcomes == {"acked": 5, "failed": 0}


def test_gaps_and_repetitions_are_named(tmp_path: Path) -> None:
    write(tmp_path, contents([(0, 0, 0), (0, 0, 3), (0, 1, 1), (1, 2, 0), (1, 2, 0)]))
    assert read_acks(tmp_path).problems() == [
        "client 0 of group 'web': transactions 1 to 2 are missing",
        "client 1 of group 'web': transactions 0 to 0 are missing",
        "client 2 of group 'batch': transaction 0 occurs twice",
    ]


@given(cut=st.integers(0, 5 * RECORD.size), zeros=st.integers(0, 3 * RECORD.size))
def test_an_end_that_was_not_written_is_dropped_and_counted(
    tmp_path_factory: pytest.TempPathFactory, cut: int, zeros: int
) -> None:
    data = contents((0, 0, txn) for txn in range(5))
    folder = write(tmp_path_factory.mktemp("torn"), data[: len(data) - cut] + b"\0" * zeros)
    ledger = read_acks(folder)
    whole = (5 * RECORD.size - cut) // RECORD.size
    assert ledger.records["txn"].tolist()[:whole] == list(range(whole))
    # Zeros that complete a torn record may happen to be what it held.
    assert whole <= len(ledger.records) <= whole + 1
    assert ledger.torn_bytes == 5 * RECORD.size - cut + zeros - len(ledger.records) * RECORD.size
    assert ledger.problems() == []


def test_an_empty_ledger_is_one(tmp_path: Path) -> None:
    ledger = read_acks(write(tmp_path, contents([])))
    assert len(ledger.records) == 0
    assert ledger.problems() == []


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path / "none").startswith("acks-missing: cannot read the ack ledger")
    assert problem(tmp_path).startswith("acks-missing: there is no ack ledger in")
    data = contents([(0, 0, 0), (0, 0, 1)])
    damaged = {
        b"SQLite format 3\0" * 10: "acks-foreign",
        data[:15]: "acks-foreign",
        data[:60]: "its header cannot be read",
        data[:8] + b"\x02" + data[9:]: "it has version 2; this pgdyno reads version 1",
        contents([(0, 0, 0)], first_number=5): "its records are not in order",
        contents([(9, 0, 0)]): "a record names a script that its header does not",
    }
    for content, why in damaged.items():
        assert why in problem(write(tmp_path, content))
