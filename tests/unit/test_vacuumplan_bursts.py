"""Which changes are a rate: steady ones, not a table being filled, not a burst."""

from __future__ import annotations

from itertools import accumulate

import pytest
from inline_snapshot import snapshot

from pgdyno.vacuumplan._bursts import parts_of, why_no_rate


def seen(changes: list[int], **first: float) -> list[dict[str, float]]:
    """A table of 10,000 rows at each look, with updates in between."""
    row = {"rows": 10_000, "live": 10_000, "inserted": 0, "updated": 7, "deleted": 0, "bytes": 8192}
    row |= first
    return [{**row, "updated": row["updated"] + each} for each in accumulate([0, *changes])]


@pytest.mark.parametrize(
    ("changes", "is_rate"),
    [
        ([100] * 6, True),
        ([0, 100, 0, 100, 0, 100], True),
        ([0, 0, 600, 0, 0, 0], False),
        ([1, 1, 300, 300, 1, 1], False),
        ([600], True),
    ],
    ids=["steady", "batches", "one burst", "over a look", "two looks only"],
)
def test_a_rate_takes_half_of_the_time(changes: list[int], is_rate: bool) -> None:
    assert (why_no_rate(seen(changes)) is None) == is_rate


def test_a_table_that_more_than_doubles_is_being_filled() -> None:
    looks = seen([0] * 6, rows=0, live=5)
    filled = [{**each, "inserted": 100 * n, "bytes": 8192 * n} for n, each in enumerate(looks, 1)]
    assert (why_no_rate(filled) or "").startswith("it had 5 rows at the first look, and 600 more")
    queue = [{**each, "deleted": 100 * n} for n, each in enumerate(filled, 1)]
    assert why_no_rate(queue) is None
    unknown = [{**each, "bytes": 8192 * 100} for each in filled]
    assert why_no_rate(unknown) is None, "its rows were not known, but its size was"


def test_a_new_table_has_no_rate() -> None:
    assert why_no_rate([None, *seen([100] * 5)]) == snapshot("it was not there at the first look")


@pytest.mark.parametrize(("seconds", "parts"), [(1, 1), (8.9, 1), (9, 3), (20, 6), (3600, 6)])
def test_a_short_time_has_fewer_looks(seconds: float, parts: int) -> None:
    assert parts_of(seconds) == parts
