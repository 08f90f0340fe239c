"""Clients that wait for an answer to the end are named: no response time has their wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from diagnose_runs import found_in_seconds
from inline_snapshot import snapshot
from record_samples import group_row, script_row

from pgdyno._engine import Histogram
from pgdyno.diagnose import Finding

CLIENTS = 16
SECONDS = 10


def examined(tmp_path: Path, waiting: Sequence[int], waited_s: float, response_s: float) -> Finding:
    """The finding on a group with so many clients without an answer at the end of each second, and
    one of them for so long."""
    response = Histogram()
    response.record(round(1e9 * response_s), 500)
    done = script_row(intended=500, sent=500, done=500, backlog=CLIENTS, response=response.encode())
    seconds = []
    for left_s, count in zip(reversed(range(len(waiting))), waiting, strict=True):
        longest_us = round(1e6 * max(0.0, waited_s - left_s)) if count else 0
        group = group_row(clients=CLIENTS, unanswered=count, unanswered_us_max=longest_us)
        seconds.append(([done], [group]))
    return found_in_seconds(tmp_path, {"web": CLIENTS}, seconds)["unanswered-clients"]


def test_clients_that_wait_to_the_end_are_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, [0, 0, 3, *[2] * 7], waited_s=9.5, response_s=0.2)
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "2 of 16 clients got no answer in the last 9.5 s: response times are those of the others,"
        " 200 ms at most"
    )
    assert finding.share == pytest.approx(0.95 * 2 / 16)


def test_a_look_just_before_the_first_counts_does_not_hide_it(tmp_path: Path) -> None:
    finding = examined(tmp_path, [0] * 4 + [1] * 6, waited_s=8.0, response_s=0.2)
    assert (finding.status, finding.share) == ("found", pytest.approx(0.8 / 16))


def test_one_that_waits_from_the_beginning_waits_for_the_whole_period(tmp_path: Path) -> None:
    finding = examined(tmp_path, [1] * SECONDS, waited_s=60, response_s=0.2)
    assert (finding.status, finding.share) == ("found", pytest.approx(1 / 16))


@pytest.mark.parametrize(
    ("waiting", "waited_s", "response_s"),
    [
        pytest.param([0] * SECONDS, 0, 0.2, id="all have their answers"),
        pytest.param([0] * 7 + [1] * 3, 4.5, 0.2, id="for a small part of the period"),
        pytest.param([1] * SECONDS, 9, 1.0, id="as long as others waited, or nearly"),
        pytest.param([CLIENTS] * SECONDS, 9, 0.2, id="a group that stands still as a whole"),
        pytest.param([1] * 9 + [0], 0, 0.2, id="answered before the end"),
    ],
)
def test_others_are_not(
    tmp_path: Path, waiting: Sequence[int], waited_s: float, response_s: float
) -> None:
    assert examined(tmp_path, waiting, waited_s, response_s).status == "cleared"
