"""The log of transactions beside the one that pgbench writes; and errors as they are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdyno.server import Cluster

pytestmark = pytest.mark.server


def run(cwd: Path, pg: Cluster, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``pgdyno run`` of a script on standard input, in ``cwd``."""
    uri = pg.conninfo.uri_without_password
    words = ["run", uri, "-f", "-", "-q", "-o", "run.db", *options]
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", *words],
        cwd=cwd, input=script, capture_output=True, text=True, check=False,
        env={**os.environ, "PGPASSWORD": pg.conninfo.password or ""},
    )  # fmt: skip


def by_pgbench(cwd: Path, pg: Cluster, script: str, *options: str) -> None:
    conninfo = pg.conninfo
    where = ["-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user]
    program = str(pg.installation.bindir / "pgbench")
    words = ["-n", "-f", "-", *where, *options, conninfo.database]
    subprocess.run([program, *words], cwd=cwd, input=script, text=True, check=True,
                   capture_output=True)  # fmt: skip


def lines(folder: Path) -> list[list[str]]:
    files = sorted(folder.glob("*log*"))
    return [line.split() for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


@pytest.mark.parametrize(
    "options", [("--max-tries", "1"), ("--max-tries", "3"), ("--max-tries", "1", "-R", "500")]
)
def test_lines_have_pgbenchs_columns(
    pg18: Cluster, folders: tuple[Path, Path], options: tuple[str, ...]
) -> None:
    here, there = folders
    options = ("-l", "-t", "5", "-c", "2", "-j", "2", *options)
    run(here, pg18, "select 1;\n", *options)
    by_pgbench(there, pg18, "select 1;\n", *options)
    ours, theirs = lines(here), lines(there)
    assert len(ours) == len(theirs) == 10
    assert {len(line) for line in ours} == {len(line) for line in theirs}
    assert {line[0] for line in ours} <= {"0", "1"}
    if "-R" not in options:
        assert sorted(line[:2] for line in ours) == sorted(line[:2] for line in theirs)
    # Written at about the same time, in seconds since 1970.
    assert abs(int(ours[0][4]) - int(theirs[0][4])) < 3600
    names = sorted(file.name.count(".") for file in here.glob("pgbench_log*"))
    assert names == sorted(file.name.count(".") for file in there.glob("pgbench_log*")) == [1, 2]


def test_sums_have_pgbenchs_columns(pg18: Cluster, folders: tuple[Path, Path]) -> None:
    here, there = folders
    options = ("-l", "--aggregate-interval", "1", "-T", "2", "-c", "2", "--max-tries", "1")
    script = "\\sleep 5 ms\nselect 1;\n"
    run(here, pg18, script, *options, "--log-prefix", "my_log")
    by_pgbench(there, pg18, script, *options)
    ours, theirs = lines(here), lines(there)
    assert {len(line) for line in ours} == {len(line) for line in theirs} == {15}
    for line in ours:
        count, total, least, most = (int(line[at]) for at in (1, 2, 4, 5))
        assert count * least <= total <= count * most
        assert line[6:] == ["0"] * 9


def test_failures_and_samples(pg18: Cluster, tmp_path: Path) -> None:
    run(tmp_path, pg18, "select 1/0;\n", "-l", "-t", "20", "-c", "1")
    assert [line[2] for line in lines(tmp_path)] == ["failed"] * 20
    (tmp_path / "run.db").unlink()
    for file in tmp_path.glob("pgbench_log*"):
        file.unlink()
    run(tmp_path, pg18, "select 1;\n", "-l", "--sampling-rate", "0.2", "-t", "500", "-c", "1")
    assert 0 < len(lines(tmp_path)) < 300


def test_an_error_is_told_with_its_place_and_all_that_the_server_said(
    pg18: Cluster, tmp_path: Path
) -> None:
    script = (
        "\\set a 1\nbegin;\ncreate temp table if not exists once (id int primary key) ;\n"
        "select 1\n  / idd + :a from once;\nend;\n"
    )
    done = run(tmp_path, pg18, script, "-t", "2", "-c", "1", "--format", "json")
    assert 'ERROR 42703: column "idd" does not exist' in done.stderr
    assert "at client 0, stdin line 5: select 1 / idd + :a from once" in done.stderr
    assert done.stderr.count("ERROR 42703") == 1, "the first of its kind"
    (error,) = json.loads(done.stdout)["errors"]
    told: dict[str, Any] = {"client": 0, "file": "stdin", "line": 5, "count": 2}
    assert {name: error[name] for name in told} == told
    assert error["hint"] == 'Perhaps you meant to reference the column "once.id".'
    assert error["excerpt"] == "  / idd + $1 from once\n    ^"
    (tmp_path / "run.db").unlink()
    verbose = run(tmp_path, pg18, script, "-t", "2", "-c", "1", "--verbose-errors")
    assert verbose.stderr.count("ERROR 42703") == 2


def test_every_statement_is_reported_where_that_is_asked(pg18: Cluster, tmp_path: Path) -> None:
    done = run(tmp_path, pg18, "select 1;\nselect 2;\n", "-t", "3", "-c", "2", "-r")
    tail = done.stdout[done.stdout.index("statement latencies") :].splitlines()
    assert tail[1] == "stdin"
    assert [line.split()[2:] for line in tail[2:]] == [
        ["6", "0", "select", "1"],
        ["6", "0", "select", "2"],
    ]
