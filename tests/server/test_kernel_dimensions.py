"""The kernel's parameters and the data's disk as sides of a comparison, on a real server: in force,
put back, and refused where they cannot be had."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.kernel import _record as records
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("own_home")]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount the data's disk")
VM = Path("/proc/sys/vm")
DISK = "loop:fs=ext4,size=512MB"


def session_of(path: Path, *, may_apply: bool = False, **fields: Any) -> Any:
    given = {
        "workload": {"scale": 1},
        "clients": [{"name": "web", "count": 2, "think": "20ms"}],
        **fields,
    }
    return open_session(
        spec_from_fields(given),
        run=path / "run.db",
        command="compare",
        spec_text="",
        watcher=Silent(),
        may_apply=may_apply,
    )


def keys(**given: str) -> Change:
    return Change(spec={name.replace("__", "."): value for name, value in given.items()})


def value(name: str) -> str:
    return (VM / name).read_text().strip()


def may_change(name: str) -> bool:
    try:
        os.close(os.open(VM / name, os.O_WRONLY))
    except OSError:
        return False
    return True


def refused(session: Session, change: Change) -> str:
    with pytest.raises((SetupError, UsageError)) as caught:
        session.provide(change)
    assert caught.value.hint
    return caught.value.code


def other_share(name: str) -> str:
    return "9%" if value(name) != "9" else "8%"


def mount_of(session: Session) -> tuple[str, str]:
    """The file system of the data, and its mount options."""
    assert session.target.data_dir is not None
    point = str(session.target.data_dir.parents[1])
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        own, _, of_fs = line.partition(" - ")
        if own.split()[4] == point:
            return of_fs.split()[0], f"{own.split()[5]},{of_fs.split()[-1]}"
    raise AssertionError(f"{point} is not mounted")


def rows(session: Session) -> Any:
    with connect_plain(session.target.conninfo) as connection:
        found = connection.execute("select count(*), sum(abalance) from pgbench_accounts")
        return found.fetchone()


@needs_root
def test_parameters_are_in_force_on_their_side_and_put_back(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    before = {name: value(name) for name in ("dirty_background_ratio", "nr_hugepages")}
    share = other_share("dirty_background_ratio")
    fewer = {"server": {"settings": {"shared_buffers": "16MB"}}}
    with session_of(tmp_path, disk={"data": DISK}, **fewer) as session:
        ours = keys(kernel__dirty_background=share, kernel__read_ahead="64kB")
        if not may_change("dirty_background_ratio"):
            assert refused(session, ours) == "kernel-parameter"
            return

        session.provide(ours)
        session.apply(ours, warm_up_s_max=0.1)
        assert f"{value('dirty_background_ratio')}%" == share
        assert read_ahead_kb(session) == 64
        session.slice(0.2, kind="run")
        session.apply(Change(), warm_up_s_max=0.1)
        assert value("dirty_background_ratio") == before["dirty_background_ratio"]
        assert read_ahead_kb(session) != 64
        pages = keys(kernel__huge_pages=str(int(before["nr_hugepages"]) + 48))
        session.provide(pages)
        session.apply(pages, warm_up_s_max=0.1)
        with connect_plain(session.target.conninfo) as connection:
            row = connection.execute("show huge_pages_status").fetchone()
        assert row == ("on",)
        session.apply(ours, warm_up_s_max=0.1)  # another side: restarted without them
        assert value("nr_hugepages") == before["nr_hugepages"]
    assert {name: value(name) for name in before} == before
    assert not records.path().exists()


def read_ahead_kb(session: Session) -> int:
    assert session.target.data_dir is not None
    number = session.target.data_dir.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return int((device / "queue" / "read_ahead_kb").read_text())


def test_parameters_of_the_spec_hold_from_the_start(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    before = value("dirty_background_ratio")
    share = other_share("dirty_background_ratio")
    fields = {"kernel": {"dirty_background": share}}
    if not may_change("dirty_background_ratio"):
        with (
            pytest.raises(SetupError, match="cannot be changed"),
            session_of(tmp_path, **fields),
        ):
            pass
        return
    with session_of(tmp_path, **fields) as session:
        assert f"{value('dirty_background_ratio')}%" == share
        session.apply(keys(kernel__dirty_background="64MB"), warm_up_s_max=0.1)
        assert value("dirty_background_bytes") == str(64 << 20)
        session.apply(Change(), warm_up_s_max=0.1)
        assert f"{value('dirty_background_ratio')}%" == share
    assert value("dirty_background_ratio") == before


@needs_root
def test_a_disk_of_the_data_becomes_another_with_the_same_rows(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    with session_of(tmp_path, disk={"data": DISK}) as session:
        assert mount_of(session)[0] == "ext4"
        assert "noatime" not in mount_of(session)[1]
        session.start_load()
        session.wait(0.3)
        session.interrupt_load()
        before = rows(session)
        for disk, fs, option in (
            ("loop:fs=ext4,size=512MB,mount=noatime+data=writeback", "ext4", "data=writeback"),
            ("loop:fs=xfs,size=512MB,mount=noatime", "xfs", "noatime"),
            (DISK, "ext4", "relatime"),
        ):
            session.prepare(keys(disk__data=disk))
            found, options = mount_of(session)
            assert (found, option in options) == (fs, True)
            assert rows(session) == before
        (wrong,) = [keys(disk__data="loop:fs=ext4,size=512MB,mount=data=unheard")]
        with pytest.raises(SetupError, match="cannot mount"):
            session.prepare(wrong)
        assert rows(session) == before, "the server is back on the disk before"
        session.prepare(Change())


@needs_root
def test_what_cannot_be_had_is_refused_before_the_load(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    with session_of(tmp_path, disk={"data": "tmpfs:512MB"}) as session:
        assert refused(session, keys(kernel__crypt="no_read_workqueue")) == "kernel-no-crypt"
        assert refused(session, keys(kernel__read_ahead="4MB")) == "kernel-no-device"
        assert refused(session, keys(disk__data=DISK)) == "data-disk-not-variable"


def test_the_kernel_of_a_users_machine_is_left_without_apply(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    uri = new_cluster(18).conninfo.uri_without_password
    server = {"kind": "existing", "conninfo": uri}
    change = keys(kernel__dirty="11%")
    before = value("dirty_ratio")
    with session_of(tmp_path, server=server) as session:
        assert refused(session, change) == "apply-not-allowed"
    assert value("dirty_ratio") == before
