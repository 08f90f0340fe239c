"""Parameters of the kernel: read, written, refused; former values put back; specs and titles."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.dimension import change_of, title_of
from pgdyno.dimension.kinds.block_devices import crypt_devices
from pgdyno.dimension.kinds.kernel import check_room
from pgdyno.errors import SetupError, UsageError
from pgdyno.kernel import (
    CryptQueues,
    EitherFile,
    KernelChanges,
    OneFile,
    check_changeable,
    restore_left_parameters,
)
from pgdyno.kernel import _record as records
from pgdyno.kernel._parameters import flags_in, from_json, table_with, to_json
from pgdyno.server.locks import try_lock
from pgdyno.spec import Spec, spec_from_fields

KEY = "0123456789abcdef" * 4
TABLE = f"0 409600 crypt aes-xts-plain64 {KEY} 0 8:2 32768"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("PGDYNO_HOME", str(home))


def file_of(tmp_path: Path, name: str, value: str) -> OneFile:
    path = tmp_path / name
    path.write_text(f"{value}\n")
    return OneFile(f"vm.{name}", str(path))


def limit_of(tmp_path: Path, share: int, amount: int) -> EitherFile:
    for name, value in (("ratio", share), ("kbytes", amount)):
        (tmp_path / name).write_text(f"{value}\n")
    return EitherFile("vm.limit", str(tmp_path / "ratio"), str(tmp_path / "kbytes"), 1024)


def test_a_parameter_is_set_and_put_back(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "swappiness", "60")
    changes = KernelChanges()
    changes.set(parameter, "10", "kernel.x")
    changes.set(parameter, "20", "kernel.x")
    assert parameter.read() == "20"
    written = json.loads(records.path().read_text())["changed"][0]
    assert (written["before"], written["ours"]) == ("60", ["10", "20"])
    assert records.path().stat().st_mode & 0o077 == 0
    changes.reset(parameter, "kernel.x")
    assert parameter.read() == "60"
    changes.set(parameter, "10", "kernel.x")
    assert changes.restore_all() == ["vm.swappiness is 60 again"]
    assert parameter.read() == "60"
    assert not records.path().exists()
    assert changes.restore_all() == []


def test_nothing_is_begun_for_a_value_that_is_there_already(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "swappiness", "60")
    changes = KernelChanges()
    changes.set(parameter, "60", "kernel.x")
    assert not records.path().exists()
    assert changes.restore_all() == []


def test_what_others_have_set_meanwhile_stays(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "swappiness", "60")
    changes = KernelChanges()
    changes.set(parameter, "10", "kernel.x")
    parameter.write("33")
    (said,) = changes.restore_all()
    assert said == snapshot("vm.swappiness was changed by others meanwhile to 33, and is left")
    assert parameter.read() == "33"
    assert not records.path().exists()


def test_a_limit_is_a_percentage_or_an_amount(tmp_path: Path) -> None:
    limit = limit_of(tmp_path, 50, 0)
    assert limit.read() == "50%"
    limit.write("90%")
    assert limit.read() == "90%"
    limit.write(str(4 << 20))
    assert (tmp_path / "kbytes").read_text() == "4096\n"
    assert limit.read() == str(4 << 20)


def test_one_pgdyno_at_a_time_changes_the_kernel(tmp_path: Path) -> None:
    lock = try_lock(records.lock_path())
    assert lock is not None
    parameter = file_of(tmp_path, "swappiness", "60")
    with pytest.raises(SetupError, match="another pgdyno changes") as caught:
        KernelChanges().set(parameter, "10", "kernel.x")
    assert caught.value.code == "kernel-in-use"
    assert parameter.read() == "60"
    os.close(lock)


def left_behind(parameter: OneFile, before: str, ours: str, *, boot: str | None = None) -> None:
    """The record of a run that was killed with its guardian."""
    record = records.KernelUndoRecord(boot or records.boot_id())
    record.changed.append(records.Changed(parameter, before, {ours}))
    record.write()
    parameter.write(ours)


def test_what_a_killed_run_and_its_guardian_left_is_put_back(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "swappiness", "60")
    left_behind(parameter, "60", "10")
    assert restore_left_parameters() == snapshot(
        ["left by a killed run: vm.swappiness is 60 again"]
    )
    assert parameter.read() == "60"
    assert restore_left_parameters() == []


def test_the_next_change_puts_it_back_first(tmp_path: Path) -> None:
    parameter, other = (file_of(tmp_path, name, "60") for name in ("swappiness", "other"))
    left_behind(parameter, "60", "10")
    changes = KernelChanges()
    changes.set(other, "1", "kernel.x")
    assert parameter.read() == "60"
    changes.restore_all()
    assert other.read() == "60"


def test_after_a_restart_of_the_machine_there_is_nothing_to_put_back(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "swappiness", "60")
    left_behind(parameter, "60", "10", boot="an earlier one")
    assert restore_left_parameters() == []
    assert parameter.read() == "10"
    assert not records.path().exists()


def test_a_device_that_is_gone_has_nothing_to_put_back(tmp_path: Path) -> None:
    parameter = file_of(tmp_path, "read_ahead_kb", "128")
    changes = KernelChanges()
    changes.set(parameter, "4096", "kernel.read_ahead")
    Path(parameter.path).unlink()
    assert changes.restore_all() == []
    assert not records.path().exists()


def test_a_damaged_record_is_named_and_kept() -> None:
    records.path().write_text("{")
    (said,) = restore_left_parameters()
    assert str(records.path()) in said
    assert records.path().exists()


def test_what_may_not_be_changed_is_refused_and_not_changed(tmp_path: Path) -> None:
    missing = OneFile("vm.nothing", str(tmp_path / "nothing"))
    for parameter in (missing, OneFile("kernel.osrelease", "/proc/sys/kernel/osrelease")):
        with pytest.raises(SetupError, match="cannot be changed") as caught:
            check_changeable(parameter, "kernel.x")
        assert caught.value.code == "kernel-parameter"
        assert caught.value.message.startswith(f"kernel.x: {parameter.name} cannot be changed: ")
        with pytest.raises(SetupError):
            KernelChanges().set(parameter, "1", "kernel.x")
    assert not records.path().exists()


def test_flags_of_an_encrypted_disk_are_found_and_changed_in_its_table() -> None:
    assert flags_in(TABLE) == "none"
    discards = f"{TABLE} 1 allow_discards"
    assert flags_in(discards) == "none"
    both = table_with(discards, "no_write_workqueue+no_read_workqueue")
    assert both == f"{TABLE} 3 allow_discards no_read_workqueue no_write_workqueue"
    assert flags_in(both) == "no_read_workqueue+no_write_workqueue"
    assert table_with(both, "no_read_workqueue") == f"{TABLE} 2 allow_discards no_read_workqueue"
    assert table_with(both, "none") == discards
    assert table_with(table_with(TABLE, "no_read_workqueue"), "none") == TABLE
    for table in ("0 8 linear 8:2 0", f"{TABLE}\n{TABLE}", ""):
        with pytest.raises(OSError, match="not of one encrypted disk"):
            flags_in(table)


def test_the_key_of_an_encrypted_disk_is_in_no_record() -> None:
    queues = CryptQueues("work queues of the encrypted disk luks", "luks")
    fields = to_json(queues)
    assert fields == {"kind": "crypt", "name": queues.name, "device": "luks"}
    assert from_json(fields) == queues


def test_the_encrypted_disk_is_found_below_the_datas_volume(tmp_path: Path) -> None:
    for device, uuid, below in (
        ("dm-1", "LVM-abc", ["dm-0"]),
        ("dm-0", "CRYPT-LUKS2-abc-luks", ["sda"]),
        ("sda", "", []),
    ):
        for each in below:
            (tmp_path / device / "slaves" / each).mkdir(parents=True)
        if uuid:
            (tmp_path / device / "dm").mkdir()
            (tmp_path / device / "dm" / "uuid").write_text(f"{uuid}\n")
            (tmp_path / device / "dm" / "name").write_text(f"name-of-{device}\n")
        else:
            (tmp_path / device).mkdir()
    assert list(crypt_devices(tmp_path, "dm-1")) == ["name-of-dm-0"]
    assert list(crypt_devices(tmp_path, "sda")) == []


def test_a_commit_limit_that_is_used_up_is_refused() -> None:
    check_room("CommitLimit:    1000 kB\nCommitted_AS:    700 kB\n")
    with pytest.raises(SetupError, match=r"promised 900kB of memory already, of 1000kB"):
        check_room("CommitLimit:    1000 kB\nCommitted_AS:    900 kB\n")


GOOD = {
    "read_ahead": "4MB",
    "dirty": "10%",
    "dirty_background": "256MB",
    "overcommit_limit": "90%",
    "overcommit_memory": 2,
    "huge_pages": 64,
    "crypt": "no_read_workqueue",
}


def test_a_spec_has_parameters_of_the_kernel() -> None:
    spec = spec_from_fields({"kernel": GOOD})
    assert spec.kernel.model_dump() == GOOD
    assert Spec().kernel.model_dump() == dict.fromkeys(GOOD)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("dirty", "101%", "must be at most 100%"),
        ("dirty", "0%", "must be at least 1%, or 8kB"),
        ("dirty_background", "4kB", "must be at least 1%, or 8kB"),
        ("read_ahead", "5kB", "must be a multiple of 4kB"),
        ("overcommit_memory", 3, "0, 1 or 2"),
        ("huge_pages", -1, "greater than or equal to 0"),
        ("crypt", "no_queue", "must be none, no_read_workqueue or no_write_workqueue"),
        ("swappiness", 1, "unknown key"),
    ],
)
def test_values_that_the_kernel_cannot_have_are_refused(key: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        spec_from_fields({"kernel": {key: value}})


def test_titles_are_the_parameters_words() -> None:
    keys = {f"kernel.{key}": str(value) for key, value in GOOD.items()}
    assert title_of(change_of(keys, spec=Spec())) == snapshot(
        "read-ahead = 4MB, dirty pages at most = 10%, dirty pages written from = 256MB, overcommit"
        " limit = 90%, overcommit_memory = 2, huge pages = 64, dm-crypt = no_read_workqueue"
    )


def test_only_disks_on_loop_devices_differ_in_a_comparison() -> None:
    spec = spec_from_fields({"disk": {"data": "loop:fs=ext4,size=128MB"}})
    change = change_of({"disk.data": "loop:fs=ext4,mount=noatime+data=writeback"}, spec=spec)
    assert title_of(change) == snapshot(
        "data on ext4 on a loop device, mounted with noatime,data=writeback"
    )
    for first, other in (("plain", "loop:fs=xfs"), ("loop:fs=xfs", "tmpfs:1GB")):
        spec = spec_from_fields({"disk": {"data": first}})
        with pytest.raises(UsageError, match="only these can differ") as caught:
            change_of({"disk.data": other}, spec=spec)
        assert caught.value.code == "data-disk-not-variable"


@pytest.mark.parametrize("options", ["ro", "loop", "noatime,x", "Noatime", "a=b=c", "noatime+"])
def test_mount_options_that_are_none_are_refused(options: str) -> None:
    with pytest.raises(UsageError):
        spec_from_fields({"disk": {"data": f"loop:mount={options}"}})
