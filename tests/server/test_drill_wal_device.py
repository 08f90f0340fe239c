"""The WAL's disk is lost: what each rescue brings back, with standbys in sync, behind and none."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.faults import wal_device
from pgdyno.drill.model import DrillOptions
from pgdyno.drill.running import run_drill
from pgdyno.errors import UsageError
from pgdyno.record import AckOutcome, read_acks
from pgdyno.record.cut import Cut
from pgdyno.results.drill import Drill
from pgdyno.server import Installation
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server

# What a busy server does in minutes, a load of a second does with checkpoints this often.
SETTINGS = {"checkpoint_timeout": "30s"}


def acked_since(drill: LoadedServer, since_ns: int) -> bool:
    """Whether a transaction that began later was acknowledged."""
    acks = read_acks(drill.acks_directory()).records
    return bool(((acks["outcome"] == AckOutcome.ACKED) & (acks["sent_ns"] > since_ns)).any())


@pytest.fixture
def drilled(
    installation_of: Callable[[int], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Drill]:
    """Lose the WAL's disk, which is a plain directory: tmpfs needs root.

    The load has acknowledged something since a checkpoint began and standbys were held up.
    """
    begin = wal_device._prepare_scenario

    def prepared(drill: LoadedServer, scenario: str, checkpointing: psycopg.Connection) -> Any:
        ended = begin(drill, scenario, checkpointing)
        if ended is None:
            since_ns = time.monotonic_ns()
            wait_until(lambda: acked_since(drill, since_ns), "the load goes on")
        return ended

    monkeypatch.setattr(wal_device, "_prepare_scenario", prepared)
    monkeypatch.setattr(wal_device, "CHECKPOINT_LEAD_S", 0.2)

    def run(
        major: int,
        standby: dict[str, Any],
        wal: str = "plain",
        settings: dict[str, str] | None = None,
        **options: Any,
    ) -> Drill:
        installation_of(major)
        spec = spec_from_fields(
            {
                "server": {"version": major, "settings": SETTINGS | (settings or {})},
                "disk": {"wal": wal},
                "workload": {"scale": 1},
                "clients": [{"count": 4, "think": "15ms"}],
                "standby": standby,
            }
        )
        return run_drill(
            spec,
            DrillOptions(**{"fault": "wal-device", "cuts": 1, "load_s": 0.3, **options}),
            watcher=Silent(),
            run=tmp_path / "run.db",
        )

    return run


NOT_CLEAN = ("lost", "corrupt")
"""Corrupt if the server had written a page whose WAL is gone, which is up to its checkpoint."""


def by_variant(result: Drill) -> dict[str, Cut]:
    assert not result.fault_missing, [cut.proof for cut in result.cuts]
    return {cut.variant: cut for cut in result.cuts}


def failed(cut: Cut) -> set[str]:
    return {check.name for check in cut.checks if check.passed is False}


def lost(cut: Cut) -> int:
    assert cut.ledger is not None, cut
    assert cut.ledger.acked > 0
    return cut.ledger.lost


def test_a_standby_in_sync_has_everything(drilled: Callable[..., Drill]) -> None:
    result = drilled(18, {"count": 1, "mode": "on"})
    cuts = by_variant(result)
    assert list(cuts) == ["start", "resetwal", "promote", "copy-back"]
    assert cuts["start"].outcome == "refused"
    assert "could not locate a valid checkpoint record" in cuts["start"].server_said
    assert cuts["resetwal"].outcome in NOT_CLEAN
    assert cuts["promote"].outcome == "clean", cuts["promote"]
    assert lost(cuts["copy-back"]) == 0
    assert result.summary.bound_ms == 0
    assert cuts["start"] not in result.worse_than_bound()


@pytest.mark.long
def test_a_standby_behind_loses_or_corrupts(drilled: Callable[..., Drill]) -> None:
    cuts = by_variant(drilled(15, {"count": 1}, variant="behind"))
    assert list(cuts) == ["behind/promote", "behind/copy-back"]
    promoted, copied = cuts.values()
    assert promoted.outcome == "lost", promoted
    assert promoted.ledger is not None
    assert promoted.ledger.inconsistent == 0
    assert promoted.ledger.lost_ms > 0
    assert promoted.facts["behind_bytes"]["pgdyno_standby_1"] > 0
    assert copied.outcome in NOT_CLEAN, copied
    if copied.outcome == "corrupt":
        assert failed(copied) & {"future-lsn", "ledger", "zero-sum"}


@pytest.mark.long
def test_after_a_shutdown_no_standby_is_needed(drilled: Callable[..., Drill]) -> None:
    cuts = by_variant(drilled(18, {"count": 1}, variant="stopped"))
    assert {name: cut.outcome for name, cut in cuts.items()} == {
        "stopped/start": "refused",
        "stopped/resetwal": "clean",
        "stopped/promote": "clean",
        "stopped/copy-back": "clean",
    }


def test_wal_receiver_gives_back_what_waited_for_it(drilled: Callable[..., Drill]) -> None:
    table = {"receivewal": True, "mode": "on"}
    (cut,) = drilled(15, table, variant="receivewal").cuts
    assert lost(cut) == 0
    assert cut.proof.facts["wal_files_left"] == 0


def needs_failing_disks() -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("a disk that can fail needs root and FUSE")


STAYS_DOWN = {"restart_after_crash": "off"}


@pytest.mark.long
def test_a_disk_that_fails_under_the_server(drilled: Callable[..., Drill]) -> None:
    """What was acknowledged had been flushed: the standby has it, and so has the disk."""
    needs_failing_disks()
    table = {"count": 1, "mode": "on"}
    result = drilled(15, table, variant="io-error", wal="data", settings=STAYS_DOWN)
    cuts = {name.removeprefix("io-error/"): cut for name, cut in by_variant(result).items()}
    assert list(cuts) == ["start", "resetwal", "promote", "copy-back", "reattach"]
    assert cuts["start"].outcome == "refused"
    assert cuts["resetwal"].outcome in NOT_CLEAN
    assert cuts["promote"].outcome == "clean", cuts["promote"]
    assert cuts["reattach"].outcome == "clean", cuts["reattach"]
    assert lost(cuts["copy-back"]) == 0
    proof = cuts["start"].proof
    assert "Input/output error" in proof.facts["log"][0]
    assert not proof.facts["disk_answers"]
    assert (proof.facts["processes_left"], proof.facts["wal_files_readable"]) == (0, 0)
    assert proof.facts["wal_files_before"] > 0


@pytest.mark.long
def test_a_disk_that_is_attached_again_has_what_was_flushed(
    drilled: Callable[..., Drill],
) -> None:
    needs_failing_disks()
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")
    disk = "slow:flush=1ms,fs=xfs,size=600MB"
    result = drilled(18, {}, variant="io-error/reattach", wal=disk, settings=STAYS_DOWN)
    (cut,) = result.cuts
    assert cut.outcome == "clean", cut
    assert lost(cut) == 0
    assert (result.summary.bound_ms, cut.facts["bound_ms"]) == (None, 0)


@pytest.mark.long
def test_a_server_that_starts_itself_again_has_lost_its_wal_all_the_same(
    drilled: Callable[..., Drill],
) -> None:
    needs_failing_disks()
    table = {"count": 1, "mode": "on"}
    (cut,) = drilled(18, table, variant="io-error/promote", wal="data").cuts
    assert cut.outcome == "clean", cut
    assert lost(cut) == 0
    assert cut.proof.facts["restarts"] > 0
    assert "restarted" in cut.proof.sentence


@pytest.mark.long
def test_a_disk_that_did_not_fail_is_seen(drilled: Callable[..., Drill]) -> None:
    needs_failing_disks()
    result = drilled(15, {}, variant="io-error/reattach", wal="data", sham=True)
    assert {cut.outcome for cut in result.cuts} == {"no-fault"}
    assert result.cuts[0].proof.facts["disk_answers"]


def test_only_a_disk_of_ours_can_fail(drilled: Callable[..., Drill]) -> None:
    with pytest.raises(UsageError, match="plain directory: pgdyno can only make disks fail"):
        drilled(18, {}, variant="io-error")


@pytest.mark.long
def test_a_sham_is_seen(drilled: Callable[..., Drill]) -> None:
    result = drilled(18, {}, variant="quiet", sham=True)
    assert {cut.outcome for cut in result.cuts} == {"no-fault"}
    assert result.fault_missing


@pytest.mark.parametrize(
    ("variant", "table", "complaint"),
    [
        ("promote", {}, "nothing receives the WAL"),
        ("behind", {"count": 1, "mode": "on"}, "none is acknowledged while it is behind"),
        ("sideways", {}, 'has no variant "sideways"'),
    ],
)
def test_impossible_variants(
    drilled: Callable[..., Drill], variant: str, table: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        drilled(18, table, variant=variant)
