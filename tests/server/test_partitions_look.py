"""Partitions that statements read for nothing, on servers of pgdyno's, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_runs import diagnosed, of

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

PARTITIONS = 60
ROWS = (
    "create table reading (id int, device int, total int) partition by range (id);\n"
    + "".join(
        f"create table reading_{n} partition of reading"
        f" for values from ({n * 1000}) to ({(n + 1) * 1000});\n"
        for n in range(PARTITIONS)
    )
    + """
insert into reading select i, i / 1000, i % 100 from generate_series(1, 59999) i;
create index on reading (device);
create index on reading (id);
analyze reading;
"""
)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("device = :k % 60", "no condition"), ("id + 0 = :k and device = :k / 1000", "expression")],
)
def test_partitions_that_are_not_pruned(tmp_path: Path, condition: str, reason: str) -> None:
    script = f"\\set k random(1, 59000)\nselect sum(total) from reading where {condition};\n"
    cause = of(diagnosed(tmp_path, script, ROWS), "unpruned-partitions")
    assert cause.status == "found"
    said = {each.name: each.value for each in cause.evidence}
    assert said["reason"] == reason
    assert said["partitions"] == PARTITIONS
    assert said["of them without a row"] == PARTITIONS - 1


def test_partitions_that_are_pruned(tmp_path: Path) -> None:
    script = "\\set k random(1, 59000)\nselect sum(total) from reading where id = :k;\n"
    cause = of(diagnosed(tmp_path, script, ROWS), "unpruned-partitions")
    assert cause.status == "cleared"
