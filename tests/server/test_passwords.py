"""Passwords are asked for on the terminal, once, and are nowhere to be read afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot

from patience import PATIENCE_S
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

SECRET = "s3cr3t-Zebra"


@pytest.fixture
def guest(pg: Cluster) -> Iterator[list[str]]:
    """Arguments that lead to the server over TCP, as a role with a password."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(f"create role guest login password '{SECRET}'".encode())
        yield ["-h", "127.0.0.1", "-p", str(pg.conninfo.port), "-U", "guest", "-d", "pgdyno"]
        conn.execute("drop role guest")


def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    homes = {name: value for name, value in os.environ.items() if name.startswith("PGDYNO")}
    return {**kept, **homes, "PGPASSFILE": str(tmp_path / "none"), "TERM": "dumb"}


def command(tmp_path: Path, *arguments: str) -> list[str]:
    script = tmp_path / "own.sql"
    script.write_text("select 1;\n")
    words = ["run", *arguments, "-f", str(script), "-c", "2", "-t", "3", "-o", "run.db"]
    return [sys.executable, "-m", "pgdyno", *words, "--max-other-programs", "1"]


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def on_terminal(words: list[str], tmp_path: Path, *answers: str) -> tuple[int, str]:
    """The status, and all that stood on the terminal; each ``answer`` follows a prompt."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=environment(tmp_path),
        start_new_session=True,
        preexec_fn=_own_terminal,
    )
    os.close(theirs)
    left, shown, deadline = [*answers], "", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(ours, 65536).decode(errors="replace")
        except OSError:
            break
        if left and shown.count("Password for user guest: ") > len(answers) - len(left):
            cmdline = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert SECRET.encode() not in cmdline
            os.write(ours, left.pop(0).encode() + b"\n")
    os.close(ours)
    return process.wait(PATIENCE_S), shown


@pytest.mark.parametrize("option", [(), ("-W",)])
def test_a_password_is_asked_for_once(
    guest: list[str], tmp_path: Path, option: tuple[str, ...]
) -> None:
    status, shown = on_terminal(command(tmp_path, *guest, *option), tmp_path, SECRET)
    assert shown.count("Password for user guest: ") == 1
    assert "6 intended = 6 done" in shown
    assert status in (0, 4)
    assert SECRET not in shown
    for file in tmp_path.glob("run.db*"):
        assert SECRET.encode() not in file.read_bytes()


def test_a_wrong_password_ends_it(guest: list[str], tmp_path: Path) -> None:
    status, shown = on_terminal(command(tmp_path, *guest), tmp_path, "other")
    assert status == 1
    assert "password authentication failed" in shown


def test_without_a_terminal_nobody_is_asked(guest: list[str], tmp_path: Path) -> None:
    said = {}
    for option in ("-w", "-W"):
        done = subprocess.run(
            command(tmp_path, *guest, option),
            cwd=tmp_path,
            env=environment(tmp_path),
            text=True,
            capture_output=True,
            start_new_session=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 1
        said[option] = done.stderr
    hints = {option: text.splitlines()[-1] for option, text in said.items()}
    assert hints == snapshot(
        {
            "-w": "hint: PGPASSWORD or ~/.pgpass can supply it; on a terminal, -W prompts for it",
            "-W": "hint: set PGPASSWORD or use ~/.pgpass",
        }
    )
