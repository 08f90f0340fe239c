"""Transactions of another pgdyno's probes: believed as far as probes make them."""

from __future__ import annotations

from typing import Any

from pgdyno.probe._other_load import RATE_MAX, OtherProbes


def shows(pid: int, number: int, started: float = 1.0) -> dict[str, Any]:
    return {"pid": pid, "started_unix_s": started, "shown": number}


def looks(*rows: list[dict[str, Any]]) -> list[int]:
    """The totals of looks that are a second apart."""
    seconds = iter(range(len(rows)))
    probes = OtherProbes(clock=lambda: float(next(seconds)))
    return [probes.add(each) for each in rows]


def test_what_was_shown_since_the_first_look_counts() -> None:
    both = [[shows(7, 100), shows(8, 40)], [shows(7, 112), shows(8, 55)], [shows(7, 124)]]
    assert looks(*both) == [0, 27, 39]


def test_nobody_is_believed_more_than_probes_make() -> None:
    assert looks([shows(7, 1)], [shows(7, 999_999_999)], [shows(7, 5)]) == [0, RATE_MAX, RATE_MAX]


def test_another_session_with_the_same_process_id_begins_anew() -> None:
    assert looks([shows(7, 100)], [shows(7, 120, started=2.0)]) == [0, 0]


def test_without_other_probes_nothing_counts() -> None:
    assert looks([], [], []) == [0, 0, 0]
