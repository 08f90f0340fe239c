"""The command of CONTRIBUTING's example, added to a copy of the package, on a real server."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import jsonschema
import psycopg
import pytest
from examples import package_with_examples

from pgdyno.server import Cluster

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, pg18: Cluster) -> Run:
    """Run a command of the copy, without the server's connection string, and return its output."""
    source = package_with_examples(tmp_path) / "src"

    def command(*words: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        # The machine is shared with other tests: 4 is a measurement that cannot be trusted.
        assert done.returncode in (0, 4), done.stderr
        return done.stdout

    return command


def test_its_result_is_in_terminal_page_json_and_csv(
    run: Run, pg18: Cluster, tmp_path: Path
) -> None:
    kwargs = {**pg18.conninfo.kwargs(), "application_name": None}
    server = psycopg.conninfo.make_conninfo("", **kwargs)
    printed = run("flushes", "simple-update", server, "-c", "2", "-T", "3", "-q", "-o", "f.db")
    assert run("show", "f.db") == printed
    result = json.loads(run("show", "f.db", "--format", "json"))
    assert result["sentence"] in " ".join(printed.split())
    schema = (
        "import json; from pgdyno.results import schemas\nprint(json.dumps(schemas()['flushes']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", schema],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    jsonschema.validate(result, json.loads(done.stdout))
    rows = [*csv.DictReader(StringIO(run("show", "f.db", "--format", "csv")))]
    assert [float(row["at_s"]) for row in rows] == [each["at_s"] for each in result["seconds"]]
    run("report", "f.db")
    page = (tmp_path / "f.html").read_text()
    assert 'id="flushes"' in page
    assert result["sentence"] in page
