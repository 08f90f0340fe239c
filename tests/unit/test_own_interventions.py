"""Checkpoints and vacuums by pgdyno at the edges of slices are no findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnose_runs import CPU, Load, diagnosed
from msgspec.structs import replace
from test_diagnose_signatures import FLUSH, STALLED

STORM = {
    **(FLUSH.wal or {}),
    "wal_bytes": 45e6,
    "wal_fpi": 5300.0,
    "wal_sync": 300.0,
    "wal_sync_time_ms": 900.0,
}


def with_own_checkpoint(load: Load, second: int, duration_ms: float) -> Load:
    """The same load, and a checkpoint by pgdyno at a second of it."""
    event = {"kind": "own", "label": "checkpoint by pgdyno", "duration_ms": duration_ms}
    event["detail"] = {"debt": "checkpoint"}

    def rows(at: int) -> Sequence[Mapping[str, Any]]:
        return [event] if at == second else []

    return replace(load, rows={**load.rows, "event": rows})


def test_a_drop_during_a_checkpoint_by_pgdyno_is_no_stall(tmp_path: Path) -> None:
    idle = {"sessions": {CPU: 0.2}}
    load = replace(FLUSH, tps_by_second=STALLED, by_second={4: idle, 5: idle})
    assert diagnosed(tmp_path, load)["stall"].status == "found"
    ours = with_own_checkpoint(load, 4, 1900.0)
    assert diagnosed(tmp_path, ours)["stall"].status == "cleared"


def test_images_after_a_checkpoint_by_pgdyno_are_not_diagnosed(tmp_path: Path) -> None:
    load = replace(FLUSH, wal=STORM)
    assert diagnosed(tmp_path, load)["checkpoint-fpi"].status == "found"
    finding = diagnosed(tmp_path, with_own_checkpoint(load, 0, 10.0))["checkpoint-fpi"]
    assert finding.status == "skipped"
    assert "checkpoints by pgdyno" in finding.sentence
