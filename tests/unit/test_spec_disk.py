"""Disks as a spec names them: what is understood, what is refused, how it is said again."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pgdyno.disk import DiskPlan, open_disk
from pgdyno.errors import SetupError, UsageError
from pgdyno.spec import spec_from_fields, spec_to_toml
from pgdyno.spec.disk import disk_plan, emulated_in_words, in_words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", "a plain directory"),
        ("plain:/mnt/fast", "a directory in /mnt/fast"),
        ("tmpfs", "tmpfs"),
        ("tmpfs:1.5GB", "tmpfs of 1536MB"),
        ("tmpfs:size=64MB", "tmpfs of 64MB"),
        (" slow:flush=2ms ", "an emulated slow disk (a flush takes 2 ms)"),
        (
            "slow:write=100MB/s,fs=xfs,flush=500us,size=1GB",
            "an emulated slow disk of 1GB (a flush takes 0.5 ms, writes up to 100MB/s)",
        ),
        ("blackout", "an emulated disk that records every write"),
        ("blackout:fs=xfs,size=2GB", "an emulated disk of 2GB that records every write"),
    ],
)
def test_disks(text: str, said: str) -> None:
    assert str(disk_plan(text)) == said


def test_what_a_plan_holds() -> None:
    plan = disk_plan("slow:flush=2ms,write=100MB,size=2GB,fs=xfs")
    assert plan == DiskPlan("slow", 2 << 30, None, 2.0, 100 << 20, "xfs")
    assert plan.emulated
    assert not disk_plan("tmpfs").emulated


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ssd", '"ssd" is not a disk; examples: plain, plain:/mnt/fast, tmpfs:1GB'),
        ("", '"" is not a disk'),
        ("plain:", '"plain:": an option must follow the colon'),
        ("plain:fast", '"plain:fast": expected an absolute path'),
        ("tmpfs:1", '"1" needs a unit'),
        ("tmpfs:16MB", '"16MB": tmpfs needs at least 32MB, for two WAL segments'),
        ("tmpfs:9999999TB", '"9999999TB": must be at most 1024TB'),
        ("slow", "a slow disk needs flush, write or both"),
        ("slow:size=1GB", "a slow disk needs flush, write or both"),
        ("slow:flush", "slow: flush needs a value, such as flush=2ms"),
        ("slow:flush=2", '"2" needs a unit'),
        ("slow:flush=-2ms", '"-2ms" is not a duration'),
        ("slow:flush=1min", "flush=1min: must be at most 10s"),
        ("slow:write=1kB", "write=1kB: must be at least 64kB per second"),
        ("slow:flush=1ms,flush=2ms", "slow: flush is given twice"),
        ("slow:flush=1ms,,", 'slow: unknown option ""'),
        ("blackout:flush=1ms", 'blackout: unknown option "flush"; options are fs, size'),
        ("blackout:fs=btrfs", "fs=btrfs: must be ext4 or xfs"),
        ("blackout:fs=xfs,size=100MB", '"100MB": xfs needs at least 300MB'),
    ],
)
def test_what_is_no_disk(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        disk_plan(text)
    assert str(caught.value).startswith(said)


def refused(**fields: object) -> str:
    with pytest.raises(UsageError) as caught:
        spec_from_fields(fields)
    return caught.value.message


def test_a_spec_names_where_the_mistake_is() -> None:
    head, first, second = refused(disk={"data": "ssd", "wal": "tmpfs:1MB"}).splitlines()
    assert head == snapshot("2 errors in the spec")
    assert first.startswith('  disk.data: "ssd" is not a disk; examples: plain, ')
    assert second == snapshot('  disk.wal: "1MB": tmpfs needs at least 32MB, for two WAL segments')
    assert refused(disk={"data": "tmpfs:100MB"}) == snapshot(
        "disk: data: a data directory needs at least 128MB"
    )
    assert refused(disk={"data": "data"}).startswith('disk.data: "data" is not a disk')
    assert refused(disk={"wall": "plain"}) == snapshot("disk.wall: unknown key")


def test_an_existing_server_keeps_its_disks() -> None:
    theirs = {"kind": "existing", "conninfo": "host=db"}
    assert refused(server=theirs, disk={"wal": "tmpfs:1GB"}) == snapshot(
        "disk can only be used with server.kind = embedded; an existing server keeps its disks"
    )
    assert refused(server={**theirs, "checksums": True}) == snapshot(
        "server: checksums can only be used with kind = embedded"
    )
    assert spec_from_fields({"server": theirs, "disk": {"data": "plain"}}).disk.wal == "data"


def test_disks_make_the_round_trip() -> None:
    disk = {"data": "plain:/mnt/a", "wal": "slow:flush=2ms"}
    spec = spec_from_fields({"disk": disk, "server": {"checksums": False}})
    text = spec_to_toml(spec)
    assert 'wal = "slow:flush=2ms"' in text
    assert "checksums = false" in text


def test_in_words() -> None:
    assert in_words({}) == []
    assert in_words({"disk": {"data": "plain", "wal": "plain"}}) == []
    assert in_words({"disk": {"data": "plain", "wal": "tmpfs:1GB"}}) == snapshot(
        ["WAL on tmpfs of 1GB"]
    )
    assert in_words({"disk": {"data": "plain:/a", "wal": "data"}}) == snapshot(
        ["data and WAL in a directory in /a"]
    )


def test_emulated_in_words() -> None:
    plain, tmpfs, slow = (
        {"disk": {"data": "plain", "wal": text}} for text in ("data", "tmpfs:1GB", "slow:flush=2ms")
    )
    assert emulated_in_words([plain, tmpfs]) is None
    assert emulated_in_words([plain, tmpfs, slow, slow]) == (
        snapshot("WAL on an emulated slow disk (a flush takes 2 ms)")
    )
    recorded, beside = ({"disk": {"data": "blackout", "wal": wal}} for wal in ("data", "tmpfs:1GB"))
    assert emulated_in_words([recorded, beside]) == (
        snapshot(
            "data and WAL on an emulated disk that records every write"
            " or data on an emulated disk that records every write"
        )
    )


def test_without_root_a_tmpfs_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SetupError) as caught:
        open_disk(disk_plan("tmpfs:64MB"), tmp_path)
    assert caught.value.message == snapshot("tmpfs: only root may mount a tmpfs")
    assert "plain:/dev/shm" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []
