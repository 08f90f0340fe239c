"""The WAL's disk is lost: what each rescue brings back, with standbys in sync, behind and none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Silent
from pgdyno.drill.drill import run_drill
from pgdyno.drill.model import Cut, DrillOptions, DrillResult
from pgdyno.errors import UsageError
from pgdyno.server import Installation
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server

# What a busy server does in minutes, a load of a second does with checkpoints this often.
SETTINGS = {"checkpoint_timeout": "30s"}


@pytest.fixture
def drilled(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> Callable[..., DrillResult]:
    """Lose the WAL's disk, which is a plain folder: tmpfs wants root."""

    def run(major: int, standby: dict[str, Any], **options: Any) -> DrillResult:
        installation_of(major)
        spec = spec_from_fields(
            {
                "server": {"version": major, "settings": SETTINGS},
                "disk": {"wal": "plain"},
                "clients": [{"count": 4}],
                "standby": standby,
            }
        )
        return run_drill(
            spec,
            DrillOptions(**{"fault": "wal-device", "cuts": 1, "load_s": 0.8, **options}),
            watcher=Silent(),
            run_path=tmp_path / "run.db",
        )

    return run


def by_variant(result: DrillResult) -> dict[str, Cut]:
    assert not result.fault_missing, [cut.proof for cut in result.cuts]
    return {cut.variant: cut for cut in result.cuts}


def failed(cut: Cut) -> set[str]:
    assert cut.verified is not None
    return {check.name for check in cut.verified.checks if check.passed is False}


def lost(cut: Cut) -> int:
    assert cut.ledger is not None, cut.to_json()
    assert cut.ledger.acked > 0
    return cut.ledger.lost


def test_a_standby_in_sync_has_everything(drilled: Callable[..., DrillResult]) -> None:
    result = drilled(18, {"count": 1, "mode": "on"})
    cuts = by_variant(result)
    assert list(cuts) == ["start", "resetwal", "promote", "copy-back"]
    assert cuts["start"].outcome == "refused"
    assert cuts["start"].verified is not None
    assert "could not locate a valid checkpoint record" in cuts["start"].verified.server_said
    assert cuts["resetwal"].outcome == "corrupt"
    assert cuts["promote"].outcome == "clean", cuts["promote"].to_json()
    assert lost(cuts["copy-back"]) == 0
    assert result.bound_ms == 0
    assert cuts["start"] not in result.worse_than_bound()


def test_a_standby_behind_loses_or_corrupts(drilled: Callable[..., DrillResult]) -> None:
    cuts = by_variant(drilled(15, {"count": 1}, variant="behind"))
    assert list(cuts) == ["behind/promote", "behind/copy-back"]
    promoted, copied = cuts.values()
    assert promoted.outcome == "lost", promoted.to_json()
    assert promoted.ledger is not None
    assert promoted.ledger.inconsistent == 0
    assert promoted.ledger.lost_ms > 0
    assert promoted.facts["behind_bytes"]["pgdyno_standby_1"] > 0
    assert copied.outcome == "corrupt", copied.to_json()
    assert failed(copied) & {"future-lsn", "ledger", "zero-sum"}


def test_after_a_shutdown_no_standby_is_needed(drilled: Callable[..., DrillResult]) -> None:
    cuts = by_variant(drilled(18, {"count": 1}, variant="stopped"))
    assert {name: cut.outcome for name, cut in cuts.items()} == {
        "stopped/start": "refused",
        "stopped/resetwal": "clean",
        "stopped/promote": "clean",
        "stopped/copy-back": "clean",
    }


def test_wal_receiver_gives_back_what_waited_for_it(drilled: Callable[..., DrillResult]) -> None:
    table = {"receivewal": True, "mode": "on"}
    (cut,) = drilled(15, table, variant="receivewal").cuts
    assert lost(cut) == 0
    assert cut.proof.facts["wal_files_left"] == 0


def test_a_sham_is_seen(drilled: Callable[..., DrillResult]) -> None:
    result = drilled(18, {}, variant="quiet", sham=True)
    assert {cut.outcome for cut in result.cuts} == {"no-fault"}
    assert result.fault_missing


@pytest.mark.parametrize(
    ("variant", "table", "complaint"),
    [
        ("promote", {}, "there is nothing that received the WAL"),
        ("behind", {"count": 1, "mode": "on"}, "none is acknowledged while it is behind"),
        ("sideways", {}, 'has no variant "sideways"'),
    ],
)
def test_impossible_variants(
    drilled: Callable[..., DrillResult], variant: str, table: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        drilled(18, table, variant=variant)
