"""``pgdyno check`` from the command line: output, exit status, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from pgdyno.server import Cluster
from pgdyno.spec.sql_text import quoted

pytestmark = pytest.mark.server


def pgdyno(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    kwargs = {**cluster.conninfo.kwargs(), "application_name": None}
    conninfo = psycopg.conninfo.make_conninfo("", **kwargs)
    command = [sys.executable, "-m", "pgdyno", "check", conninfo, *words]
    return subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)


def test_json_has_findings_what_was_not_checked_and_the_time(pg18: Cluster) -> None:
    done = pgdyno(pg18, "-T", "2", "--format", "json", "--fail-on", "never", "-q")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"findings", "not_checked", "seconds"} <= result.keys()
    for finding in result["findings"]:
        assert {
            "id",
            "sentence",
            "severity",
            "evidence",
            "advice",
            "commands",
            "prove",
        } <= finding.keys()
    assert {"subject", "why", "allow"} <= result["not_checked"][0].keys()


def test_the_exit_status_follows_the_severity(pg18: Cluster) -> None:
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("create sequence ends_soon as smallint; select setval('ends_soon', 32700)")
        try:
            done = pgdyno(pg18, "-T", "2", "-q")
        finally:
            conn.execute("drop sequence ends_soon")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "will fail" in done.stdout
    assert "sequence" in done.stderr
    assert "--fail-on" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mixed"], "pgdyno check makes no load"),
        (["-T", "60"], "the load is watched for 2 to 25 s"),
        (["--watch", "5", "--format", "json"], "cannot be used with --watch"),
        (["--watch", "1"], "at least 2 s are needed"),
    ],
)
def test_what_makes_no_sense_is_refused(pg18: Cluster, words: Sequence[str], message: str) -> None:
    done = pgdyno(pg18, *words)
    assert done.returncode == 1
    assert message in done.stderr


def test_no_name_on_the_server_begins_a_line(pg18: Cluster) -> None:
    names = ["x\nerror: forged\r\u202e", "y\nhint: forged \x1b[2J"]
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        for name in names:
            conn.execute(f"create sequence {quoted(name)} as smallint".encode())
            conn.execute("select setval(%s::regclass, 32700)", [f'"{name}"'])
        try:
            done = pgdyno(pg18, "-T", "2", "--fail-on", "never")
        finally:
            for name in names:
                conn.execute(f"drop sequence {quoted(name)}".encode())
    assert done.returncode == 0, done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if "forged" in line]
    assert [line for line in lines if line.lstrip().startswith(("error:", "hint:"))] == []
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)


@pytest.mark.parametrize("kept", [True, False])
def test_a_page_that_cannot_be_written(pg18: Cluster, tmp_path: Path, *, kept: bool) -> None:
    """What was found is printed, and a run file is spoken of only if there is one."""
    run = tmp_path / "check.db"
    words = ["-T", "2", "--fail-on", "never", "-q", "--report", "/dev/full", "--format", "json"]
    done = pgdyno(pg18, *words, *(["-o", str(run)] if kept else []))
    assert done.returncode == 1
    assert json.loads(done.stdout)["run_file"] == (str(run) if kept else None)
    assert ("the run file is kept" in done.stderr) == kept == run.exists()
