"""Pages that client sessions write themselves, by both views that count them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import diagnosed
from inline_snapshot import snapshot
from upkeep_runs import churn


def by_io(backends: float, others: float, *, syncs: int = 0, write_ms: float = 0.0) -> Any:
    """Rows of metric_io, from version 16: pages written per second."""

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        common = {"object": "relation", "context": "normal"}
        mine = {"writes": backends * edge, "fsyncs": syncs * edge, "write_time_ms": write_ms * edge}
        bulk = {"writes": 9000 * edge, "context": "bulkwrite"}
        return [
            common | {"backend_type": "client backend"} | mine,
            common | {"backend_type": "client backend"} | bulk,
            common | {"backend_type": "checkpointer", "writes": others * edge},
        ]

    return {"metric_io": rows}


def by_counters(backends: float, others: float, *, syncs: int = 0) -> Any:
    """Rows of metric_bgwriter and metric_checkpointer, until version 16."""

    def bgwriter(edge: int) -> Sequence[Mapping[str, Any]]:
        row = {"buffers_clean": 0, "maxwritten_clean": edge, "buffers_backend": backends * edge}
        return [row | {"buffers_backend_fsync": syncs * edge}]

    def checkpointer(edge: int) -> Sequence[Mapping[str, Any]]:
        return [{"buffers_written": others * edge}]

    return {"metric_bgwriter": bgwriter, "metric_checkpointer": checkpointer}


@pytest.mark.parametrize("written", [by_io, by_counters])
@pytest.mark.parametrize(
    ("backends", "others", "syncs", "status"),
    [
        (1000, 500, 0, "found"),
        (1000, 9000, 0, "cleared"),
        (50, 0, 0, "cleared"),
        (50, 500, 1, "found"),
    ],
)
def test_who_writes(
    tmp_path: Path, written: Any, backends: float, others: float, syncs: int, status: str
) -> None:
    load = churn(rows=written(backends, others, syncs=syncs))
    assert diagnosed(tmp_path, load)["backend-writes"].status == status


def test_the_time_of_the_writes_is_its_share(tmp_path: Path) -> None:
    load = churn(rows=by_io(1000, 500, write_ms=1000.0))  # 1 of 4 ms of each transaction
    finding = diagnosed(tmp_path, load)["backend-writes"]
    assert finding.share == pytest.approx(0.25, abs=0.02)
    assert finding.sentence == snapshot(
        "client sessions write 67 % of the dirty pages themselves, 1,000/s: the background writer"
        " does not clean enough"
    )
    [proposal] = finding.proposals
    assert proposal.remedy_id == "bgwriter"


def test_without_the_counters_nothing_is_said(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, churn())["backend-writes"]
    assert finding.sentence == snapshot("not checked: who writes pages was not recorded")
