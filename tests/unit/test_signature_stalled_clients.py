"""A client group that stands still is named, also beside groups that go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from record_samples import add_second, at, group_row, new_recorder, script_row

from pgdyno.diagnose import Finding, diagnose
from pgdyno.record import RunFile

GROUPS = ("web", "batch")


def examined(tmp_path: Path, web: Sequence[int], batch: Sequence[int]) -> Finding:
    """The finding on two groups with so many transactions done in each second."""
    path = tmp_path / "run.db"
    clients = [{"name": name, "count": 4, "pool": None} for name in GROUPS]
    recorder = new_recorder(path, spec={"name": "sample", "clients": clients})
    slice_id = recorder.open_slice("run", change={}, ns=at(recorder, 0))
    for second, counts in enumerate(zip(web, batch, strict=True)):
        rows = [
            script_row(name, intended=done, sent=done, done=done, backlog=4)
            for name, done in zip(GROUPS, counts, strict=True)
        ]
        add_second(recorder, second, rows, groups=[group_row(n, clients=4) for n in GROUPS])
    recorder.close_slice(slice_id, ns=at(recorder, len(web)))
    recorder.finish("done")
    with RunFile(path) as run:
        findings = {each.id: each for each in diagnose(run, [slice_id]).findings}
    return findings["stalled-clients"]


def test_group_that_stands_still_beside_another_is_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, [500] * 8, [40, 0, 0, 0, 0, 0, 0, 38])
    assert (finding.status, finding.share) == ("found", 0.375)
    assert "the clients of batch stood still for 6 of 8 s" in finding.sentence


def test_all_clients_that_stand_still_most_of_the_time_are_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, [500, 0, 0, 0, 0, 0, 0, 480], [40, 0, 0, 0, 0, 0, 0, 38])
    assert (finding.status, finding.share) == ("found", 0.375)


def test_long_transactions_do_not_stand_still(tmp_path: Path) -> None:
    assert examined(tmp_path, [500] * 8, [0, 0, 1, 0, 0, 2, 0, 1]).status == "cleared"


def test_short_drop_is_no_standstill(tmp_path: Path) -> None:
    assert examined(tmp_path, [500] * 8, [40, 41, 0, 39, 40, 0, 41, 40]).status == "cleared"
