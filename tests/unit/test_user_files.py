"""Files that users name: regular ones are read, nothing that could block is opened."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.compare.profile_file import read_profile
from pgdyno.errors import UsageError
from pgdyno.files import read_at_most
from pgdyno.imports import Choices, read_foreign
from pgdyno.record.acks import read_acks
from pgdyno.spec.read import read_fields
from pgdyno.workload import read_lines, read_urls


def _read_script(path: Path) -> None:
    from pgdyno.spec import spec_from_fields
    from pgdyno.workload import load_workloads

    load_workloads(spec_from_fields({"name": "a", "workload": {"script": [{"file": str(path)}]}}))


READERS: dict[str, Callable[[Path], object]] = {
    "a.toml": read_fields,
    "a.conf": read_profile,
    "a.jmx": lambda path: read_foreign(path, Choices()),
    "a.har": lambda path: read_foreign(path, Choices()),
    "a.csv": lambda path: read_lines(str(path)),
    "a.txt": lambda path: read_urls(str(path)),
    "a.sql": _read_script,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link", "directory"])
def test_what_is_no_file_is_refused_unopened(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    else:
        path.mkdir()
    with pytest.raises(UsageError) as refused:
        READERS[name](path)
    assert str(path) in refused.value.message


def test_files_are_read_up_to_a_length(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    assert read_at_most(path, 3) == b"abcd"
    assert read_at_most(path, 6) == read_at_most(path, None) == b"abcdef"


def test_an_open_pipe_that_was_handed_over_is_read() -> None:
    """``pgdyno run -f <(command)`` of a shell."""
    ours, theirs = os.pipe()
    os.write(theirs, b"select 1;")
    os.close(theirs)
    try:
        assert read_at_most(Path(f"/dev/fd/{ours}"), 100) == b"select 1;"
    finally:
        os.close(ours)


def test_ack_ledgers_are_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.acks")
    with pytest.raises(UsageError):
        read_acks(tmp_path)
