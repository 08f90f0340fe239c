"""What a server says arrives damaged: no traceback, no thread that dies, no hang; gaps are told.

Each seed damages other places. Figures that were damaged and are figures still are nobody's to see.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from corrupting import CorruptingRelay, FloodingRelay
from msgspec.structs import replace

from patience import PATIENCE_S, wait_until
from pgdyno.errors import PgdynoError
from pgdyno.probe import Probes
from pgdyno.probe.gaps import NOT_SAMPLED
from pgdyno.record import Recorder, RunFile
from pgdyno.server import Cluster, ConnInfo, server_facts
from pgdyno.server.connecting import control
from pgdyno.server.connecting.connect import connect_plain

pytestmark = pytest.mark.server


@contextmanager
def damaged(cluster: Cluster, seed: int, *, every_bytes: int) -> Iterator[ConnInfo]:
    relay = CorruptingRelay(
        cluster.conninfo.host, cluster.conninfo.port, seed=seed, every_bytes=every_bytes
    )
    try:
        yield replace(
            cluster.conninfo, host="127.0.0.1", port=relay.port, options={"sslmode": "disable"}
        )
    finally:
        relay.close()


def test_probes_stumble_and_come_back(
    pg18: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some thousand bytes between two damages: every few samples one is hit."""
    monkeypatch.setattr(control, "_QUIET_S", 0.2)
    died: list[threading.ExceptHookArgs] = []
    threading.excepthook, before = died.append, threading.excepthook
    told: list[str] = []
    recorder = Recorder.create(tmp_path / "run.db", name="probes", command="run")
    try:
        with damaged(pg18, 1, every_bytes=10_000) as conninfo:
            probes = Probes(conninfo, recorder, local=False, warn=told.append)
            recorder.open_slice("run")
            probes.start()
            wait_until(
                lambda: _times_back(recorder) >= 2, "they are back again", look=probes.sample_now
            )
            threads = [thread.name for thread in threading.enumerate()]
            probes.stop()
    finally:
        threading.excepthook = before
        recorder.close()
    assert {"pgdyno-probe", "pgdyno-waits"} <= set(threads)
    assert died == []
    assert any(NOT_SAMPLED["server"] in line for line in told)


def _times_back(recorder: Recorder) -> int:
    recorder.flush()
    with RunFile(recorder.path) as run:
        return sum(event.label == "server back" for event in run.events("probe"))


@pytest.mark.parametrize("seed", range(8))
def test_facts_of_a_server_are_read_or_refused(
    pg18: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(control, "_QUIET_S", 0.2)
    with damaged(pg18, seed, every_bytes=1500) as conninfo:
        try:
            facts = server_facts(conninfo)
        except Exception as problem:
            library = type(problem).__module__.partition(".")[0]
            assert isinstance(problem, PgdynoError) or library == "psycopg"
        else:
            assert facts["settings"]["max_connections"]


class _WithoutCopy(CorruptingRelay):
    """Loses the server's word that it is ready for the rows of a COPY."""

    def _damage(self, data: bytes) -> bytes:
        return b"" if data.startswith(b"G\0\0\0") else data


def test_a_copy_whose_begin_was_lost_is_not_waited_for(
    pg18: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server counts as active while it waits for rows that nobody knows are wanted."""
    monkeypatch.setattr(control, "_QUIET_S", 0.2)
    relay = _WithoutCopy(pg18.conninfo.host, pg18.conninfo.port, seed=1)
    there = replace(pg18.conninfo, host="127.0.0.1", port=relay.port)
    try:
        with connect_plain(there) as connection:
            connection.execute("create temp table copied (a int)")
            with (
                pytest.raises(psycopg.OperationalError, match="did not arrive completely"),
                connection.cursor().copy("copy copied from stdin"),
            ):
                pass
    finally:
        relay.close()


def test_a_run_ends_with_a_message_or_a_result(pg18: Cluster, open_dir: Path) -> None:
    command = [sys.executable, "-m", "pgdyno", "run", "select-only", "-s", "1", "-c", "2"]
    with damaged(pg18, 3, every_bytes=20_000) as conninfo:
        there = f"{conninfo.uri_without_password}?sslmode=disable"
        done = subprocess.run(
            [*command, "-T", "2", "-q", "--format", "json", "-d", there],
            cwd=open_dir,
            env={**os.environ, "PGDYNO_TRACEBACK": "1"},
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE_S,
        )
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert done.returncode in (0, 1, 2, 4)
    if done.stdout:
        assert json.loads(done.stdout)["schema_version"]


@pytest.mark.parametrize(
    ("words", "repeated"),
    [
        (["check"], b"D"),
        (["check"], b"S"),
        (["govern", "--once"], b"T"),
        (["run", "select-only"], b"D"),
    ],
)
def test_an_answer_without_end_is_given_up(
    pg18: Cluster, words: list[str], repeated: bytes, tmp_path: Path
) -> None:
    """Rows, their descriptions or reported settings, for ever."""
    relay = FloodingRelay(pg18.conninfo.host, pg18.conninfo.port, repeated=repeated)
    try:
        uri = f"postgresql://pgdyno@127.0.0.1:{relay.port}/pgdyno?sslmode=disable"
        password = {"PGPASSWORD": pg18.conninfo.password or ""}
        measured = ["/usr/bin/env", sys.executable, "-c", _MEASURED, *words, uri]
        done = subprocess.run(
            measured,
            cwd=tmp_path,
            env={**os.environ, **password},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        relay.close()
    assert relay.damaged > 0
    status, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert status in (1, 2), done.stderr
    assert len(re.findall(r"^error: ", done.stderr, re.MULTILINE)) == 1
    assert "internal error" not in done.stderr
    assert megabytes < 400


_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "pgdyno", *sys.argv[1:]])
kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, kb // 1024]))
"""
