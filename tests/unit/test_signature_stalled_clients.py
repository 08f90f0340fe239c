"""A client group that stands still is named, also beside groups that go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnose_runs import found_in_seconds
from inline_snapshot import snapshot
from record_samples import group_row, script_row

from pgdyno.diagnose import Finding

GROUPS = ("web", "batch")
CLIENTS = 4


def examined(tmp_path: Path, web: Sequence[int], batch: Sequence[int]) -> Finding:
    """The finding on two groups with so many transactions done in each second."""
    groups = [group_row(name, clients=CLIENTS) for name in GROUPS]
    seconds = [
        (
            [
                script_row(name, intended=done, sent=done, done=done, backlog=CLIENTS)
                for name, done in zip(GROUPS, counts, strict=True)
            ],
            groups,
        )
        for counts in zip(web, batch, strict=True)
    ]
    clients = dict.fromkeys(GROUPS, CLIENTS)
    return found_in_seconds(tmp_path, clients, seconds)["stalled-clients"]


def test_group_that_stands_still_beside_another_is_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, [500] * 8, [40, 0, 0, 0, 0, 0, 0, 38])
    assert (finding.status, finding.share) == ("found", 0.375)
    assert finding.sentence == snapshot(
        "the clients of batch stood still for 6 of 8 s: transactions were under way, and none"
        " came to an end"
    )


def test_all_clients_that_stand_still_most_of_the_time_are_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, [500, 0, 0, 0, 0, 0, 0, 480], [40, 0, 0, 0, 0, 0, 0, 38])
    assert (finding.status, finding.share) == ("found", 0.375)


def test_long_transactions_do_not_stand_still(tmp_path: Path) -> None:
    assert examined(tmp_path, [500] * 8, [0, 0, 1, 0, 0, 2, 0, 1]).status == "cleared"


def test_short_drop_is_no_standstill(tmp_path: Path) -> None:
    assert examined(tmp_path, [500] * 8, [40, 41, 0, 39, 40, 0, 41, 40]).status == "cleared"
