"""The table of wait events: complete, without duplicates, and the class of any event."""

from __future__ import annotations

from typing import get_args

import pytest

from pgdyno import wait_events
from pgdyno.facts.budget import part_words
from pgdyno.report import session_waits
from pgdyno.rules._contention import _WITH_RULES
from pgdyno.wait_events import CLASS_WORDS, EVENTS, NEWEST, OLDEST, Wait, canonical, wait_class


def flat(literal: object) -> list[str]:
    return [name for each in get_args(literal) for name in flat(each) or [each]]


def test_each_event_is_there_once_and_has_a_class_and_a_meaning() -> None:
    names = [canonical(event.type, event.name) for event in EVENTS]
    assert len(names) == len({*names}) > 80
    for event in EVENTS:
        assert event.meaning or CLASS_WORDS[event.wait_class]
        assert wait_class("active", event.type, event.name) == event.wait_class
        assert OLDEST <= event.first <= event.last <= NEWEST
        older = event.until_16 or event.name
        assert canonical(event.type, older) == canonical(event.type, event.name)


def test_each_class_has_an_event_and_words() -> None:
    classes = flat(Wait)
    assert {*CLASS_WORDS} == {*classes} == {event.wait_class for event in EVENTS}
    assert all(part_words(name) == CLASS_WORDS[name] for name in classes)
    assert {*_WITH_RULES} <= {*classes}


def test_what_has_a_colour_of_its_own_is_in_the_table() -> None:
    assert {*session_waits._COLOURS} <= wait_events.BY_NAME.keys()


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (("IO", "WALSync"), ("IO", "WalSync")),
        (("IO", "BufFileRead"), ("IO", "BuffileRead")),
        (("IO", "SLRUSync"), ("IO", "SlruSync")),
        (("IPC", "BufferIO"), ("IPC", "BufferIo")),
        (("IPC", "ProcArrayGroupUpdate"), ("IPC", "ProcarrayGroupUpdate")),
    ],
)
def test_renamed_events_are_one(older: tuple[str, str], newer: tuple[str, str]) -> None:
    assert canonical(*older) == canonical(*newer)


def test_no_wait_is_no_event() -> None:
    assert canonical("", "") == ""
    assert "" not in wait_events.BY_NAME


def test_flush_is_the_sync_and_the_queue_behind_it() -> None:
    assert canonical("IO", "WalSync") in wait_events.WAL_FLUSH
    assert canonical("LWLock", "WALWrite") in wait_events.WAL_FLUSH
    assert canonical("IO", "WALWrite") in wait_events.WAL_WRITE - wait_events.WAL_FLUSH


def test_a_change_of_a_row_waits_for_two_types_of_lock() -> None:
    assert wait_events.ROW_LOCKS == ("transactionid", "tuple")
    assert wait_events.LOCK_CLASSES["relation"] == "relation"
    assert "extend" not in wait_events.LOCK_CLASSES


@pytest.mark.parametrize(
    ("wait_event_type", "event", "expected"),
    [
        ("", "", "cpu"),
        ("IO", "WALSync", "flush"),
        ("IO", "WalSync", "flush"),
        ("LWLock", "WALWrite", "flush"),
        ("LWLock", "WALInsert", "wal insert"),
        ("Lock", "transactionid", "row"),
        ("Lock", "extend", "extend"),
        ("Lock", "relation", "relation"),
        ("Lock", "userlock", "lock"),
        ("LWLock", "Unheard", "shared"),
        ("IPC", "MessageQueueReceive", "parallel"),
        ("IPC", "HashGrowBatchesAllocate", "parallel"),
        ("IPC", "WaitForWalReplay", "wait for LSN"),
        ("Buffer", "BufferShareExclusive", "page"),
        ("IO", "CopyFromRead", "other"),
        ("IPC", "BackendTermination", "other"),
        ("IO", "Unheard", "data"),
        ("Extension", "Unheard", "other"),
    ],
)
def test_sessions_fall_into_one_class(wait_event_type: str, event: str, expected: str) -> None:
    assert wait_class("active", wait_event_type, event) == expected


def test_a_session_that_is_idle_in_a_transaction_waits_for_its_client() -> None:
    assert wait_class("idle in transaction", "Client", "ClientRead") == "client"
    assert wait_class("idle", "Client", "ClientRead") is None
