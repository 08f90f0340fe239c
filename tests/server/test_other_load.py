"""What others do beside a run is seen and told: programs on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.server


@contextmanager
def busy_loops(folder: Path, count: int) -> Iterator[None]:
    """So many processes named ``busyloop`` that do nothing but that; a minute at most."""
    program = folder / "busyloop"
    program.symlink_to("/bin/sh")
    command = ["timeout", "60", str(program), "-c", "while :; do :; done"]
    # Not children of this process, which plays pgdyno in no test of this file.
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.terminate()
            each.wait()


def run_here(folder: Path, *options: str, limit: str = "33%") -> tuple[int, dict[str, object]]:
    """``pgdyno run`` as a process of its own: exit status and result."""
    command = [sys.executable, "-m", "pgdyno", "run", "-q", "--format", "json", "-o", "run.db"]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env={**os.environ, "PGDYNO_MAX_OTHER_PROGRAMS": limit},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_busy_loops_beside_a_run_are_named_and_the_run_is_not_trusted(open_dir: Path) -> None:
    """Twice as many loops as cores take at least a third of them, whatever else runs."""
    with busy_loops(open_dir, 2 * (os.cpu_count() or 1)):
        status, result = run_here(open_dir, "select-only", "-c", "2", "-s", "1", "-T", "4")
    assert status == 4
    assert result["trustworthy"] is False
    assert "busyloop" in str(result["distrust"])
    assert result["verdict"]["finding"] in ("other-programs", "client-limited")  # type: ignore[index]
    findings = {each["id"]: each for each in result["findings"]}  # type: ignore[attr-defined]
    assert findings["other-programs"]["status"] == "found"
    assert "busyloop" in findings["other-programs"]["sentence"]
