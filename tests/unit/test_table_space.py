"""Disk space for tables: refused before they are made, with the sizes and a scale that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import _machine
from pgdyno.errors import SetupError
from pgdyno.probe.space import DiskSpace
from pgdyno.workload.table_space import TableSpace

GB = 1 << 30


def disk(holds: str, free_gb: float, wal_dir_bytes: int | None = 0) -> DiskSpace:
    return DiskSpace(holds, "ext4", 0, int(free_gb * GB), wal_dir_bytes)


def check(
    monkeypatch: pytest.MonkeyPatch,
    needed: TableSpace,
    *disks: DiskSpace,
    max_wal_size: int = GB,
    keep_free: float = 0,
) -> None:
    monkeypatch.setattr(_machine, "sample_space", lambda _: list(disks))
    _machine.check_table_space(needed, Path("/srv/pg"), max_wal_size, int(keep_free * GB))


def needed(scale: int, **given: Any) -> TableSpace:
    return TableSpace(scale, branch_bytes=17 << 20, branch_wal_bytes=16 << 20, **given)


def test_what_fits_is_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, needed(1000), disk("data,wal", 20))
    check(monkeypatch, needed(1000), disk("data", 17.5), disk("wal", 2))


def test_a_scale_too_large_is_refused_with_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError) as refused:
        check(monkeypatch, needed(20_000), disk("data,wal", 73))
    assert "at scale 20,000 need about 333 GB" in refused.value.message
    assert "has 73 GB free" in refused.value.message
    hint = str(refused.value.hint)
    fits = int(hint.removeprefix("-s ").removesuffix(" fits"))
    check(monkeypatch, needed(fits), disk("data,wal", 73))
    with pytest.raises(SetupError):
        check(monkeypatch, needed(fits + 100), disk("data,wal", 73))


def test_what_a_soak_is_to_leave_free_is_not_for_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, needed(1000), disk("data,wal", 25), keep_free=5)
    with pytest.raises(SetupError, match=r"20 GB free, of which 5 GB must be left free") as refused:
        check(monkeypatch, needed(1000), disk("data,wal", 20), keep_free=5)
    fits = int(str(refused.value.hint).removeprefix("-s ").removesuffix(" fits"))
    check(monkeypatch, needed(fits), disk("data,wal", 20), keep_free=5)
    with pytest.raises(SetupError, match="the disk of the WAL"):
        check(monkeypatch, needed(50), disk("data", 50), disk("wal", 1.5), keep_free=1)


def test_a_small_disk_of_the_wal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"the disk of the WAL has 102 MB free"):
        check(monkeypatch, needed(50), disk("data", 50), disk("wal", 0.1))
    check(monkeypatch, needed(5), disk("data", 50), disk("wal", 0.1))


def test_tables_that_are_dropped_first_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError):
        check(monkeypatch, needed(100), disk("data", 1, None))
    check(monkeypatch, needed(100, freed_bytes=1600 << 20), disk("data", 1, None))


def test_a_tablespace_is_looked_at_instead_of_the_data_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check(monkeypatch, needed(100, location=str(tmp_path)), disk("data", 0.1), disk("wal", 3))
    monkeypatch.setattr(_machine, "_free_bytes", lambda _: GB)
    with pytest.raises(SetupError, match=f"tablespace in {tmp_path} has 1 GB free"):
        check(monkeypatch, needed(100, location=str(tmp_path)), disk("data", 90), disk("wal", 3))


def test_what_cannot_be_seen_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine.check_table_space(needed(100_000), None, None)

    def hidden(_: Path) -> list[DiskSpace]:
        raise PermissionError

    monkeypatch.setattr(_machine, "sample_space", hidden)
    _machine.check_table_space(needed(100_000), Path("/srv/pg"), GB)
