"""Directories of pgdyno on the file system that they are on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgdyno.server.directories import clusters_dir


def attributes(directory: Path) -> str:
    """What ``lsattr`` shows; nothing where the file system has no attributes."""
    command = ["lsattr", "-d", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.partition(" ")[0]


def test_clusters_are_apart_on_the_disk_where_the_file_system_can_do_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    asked.mkdir()
    subprocess.run(["chattr", "+T", str(asked)], capture_output=True, check=False)
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    before = attributes(clusters_dir())
    assert ("T" in before) == ("T" in attributes(asked))
    assert attributes(clusters_dir()) == before, "a second call changes nothing"
