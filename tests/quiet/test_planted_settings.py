"""Settings that cost time, planted on servers of pgdyno's and found by an investigation: those that a
session beside the load cannot try as well; and settings that are unusual and cost nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.investigate.loop import investigate
from pgdyno.record import RunFile
from pgdyno.results.common import UnusualSetting
from pgdyno.results.investigate import InvestigateResult
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server

BUDGET_S = 200.0
HARMLESS = {
    "autovacuum_naptime": "30s",
    "bgwriter_delay": "150ms",
    "deadlock_timeout": "2s",
    "log_lock_waits": "on",
    "wal_writer_delay": "150ms",
    "work_mem": "5MB",
}
"""Beside them a cause is to be found."""


def investigated(
    directory: Path, settings: dict[str, str], script: str, **load: Any
) -> InvestigateResult:
    """Investigate a load on a new server with these settings; the WAL is in memory, so that its
    flush is no limit."""
    spec = spec_from_fields(
        {
            "name": "planted",
            "server": {"kind": "embedded", "settings": settings},
            "workload": {"script": script, "scale": 5},
            "clients": [{"name": "web", "count": 8}],
            "load": {"hold": "5s", "seed": 1, **load},
        }
    )
    with open_session(
        spec, run=directory / "run.db", command="investigate", spec_text="", watcher=Silent()
    ) as session:
        return investigate(session, budget_s=BUDGET_S, allow="D0", may_apply=False)


def judged(result: InvestigateResult) -> dict[str, UnusualSetting]:
    assert result.unusual_settings is not None
    return {each.setting: each for each in result.unusual_settings}


@pytest.mark.parametrize(
    ("planted", "script"),
    [
        ({"commit_delay": "10000", "commit_siblings": "0"}, "simple-update"),
        ({"wal_consistency_checking": "all"}, "simple-update"),
        ({"log_min_duration_statement": "0"}, "select-only"),
    ],
    ids=["commits", "checked-wal", "log"],
)
def test_a_setting_that_costs_is_found(
    tmp_path: Path, planted: dict[str, str], script: str
) -> None:
    result = investigated(tmp_path, planted | HARMLESS, script)
    kept = result.kept.get("settings", {})
    assert {*kept} & {*planted}
    assert not {*kept} & {*HARMLESS}
    assert {*judged(result)} == {*planted, *HARMLESS}


def test_settings_that_cost_nothing_are_not_blamed(tmp_path: Path) -> None:
    result = investigated(tmp_path, HARMLESS, "select-only")
    assert not result.kept
    assert not [each for each in result.steps if each.decision == "kept"]
    with RunFile(tmp_path / "run.db") as run:
        (found,) = {each.status for each in run.findings() if each.id == "costly-settings"}
    assert found == "skipped"
    assert {*judged(result)} == {*HARMLESS}
