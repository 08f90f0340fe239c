"""What failed is run once more: only what then passes is unsteady, and only a few of those pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "second_chance.py"
STEADY = "def test_steady(): pass\n"
ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_once(n):
    been = Path(f"been-{{n}}")
    first = not been.exists()
    been.touch()
    assert not first
"""
ALWAYS = """
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_always(n):
    assert False
"""
AT_SET_UP = """
from pathlib import Path
import pytest

@pytest.fixture
def server():
    been = Path("been")
    first = not been.exists()
    been.touch()
    assert not first

def test_with_a_server(server): pass
"""
BROKEN = "import no_such_module"
ONLY_ITS_PLUGIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
"""Others are slow to load."""
Play = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Play:
    """Runs the tests of a text, with one that passes beside them: exit status and last lines."""

    def play(tests: str, workers: int = 0) -> tuple[int, list[str]]:
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_steady.py").write_text(STEADY)
        (tmp_path / "test_given.py").write_text(tests)
        command = [sys.executable, str(PROGRAM), "-q", "--numprocesses", str(workers)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | ONLY_ITS_PLUGIN,
            capture_output=True,
            text=True,
            errors="replace",
        )
        return done.returncode, done.stdout.splitlines()

    return play


def test_what_passes_at_once_is_run_once(run: Play) -> None:
    status, said = run(STEADY)
    assert status == 0
    assert not any("unsteady" in line or "run again" in line for line in said)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_fails_only_once_is_named_and_passes(run: Play, workers: int) -> None:
    status, said = run(ONCE.format(count=2), workers)
    assert status == 0
    named = ["unsteady: test_given.py::test_once[0]", "unsteady: test_given.py::test_once[1]"]
    assert said[-2:] == named
    assert "2 tests failed, and run again, alone" in said


def test_a_fixture_that_fails_once_has_a_second_chance_too(run: Play) -> None:
    status, said = run(AT_SET_UP)
    assert (status, said[-1]) == (0, "unsteady: test_given.py::test_with_a_server")


def test_what_fails_twice_fails_beside_what_fails_once(run: Play) -> None:
    status, said = run(ONCE.format(count=1) + ALWAYS.format(count=1), 2)
    assert status == 1
    assert said[-2:] == [
        "failed twice: test_given.py::test_always[0]",
        "unsteady: test_given.py::test_once[0]",
    ]


@pytest.mark.parametrize(("count", "expected"), [(5, 0), (6, 1)])
def test_at_most_five_get_through(run: Play, count: int, expected: int) -> None:
    status, said = run(ONCE.format(count=count))
    assert status == expected
    assert sum(line.startswith("unsteady: ") for line in said) == count
    assert ("6 tests are unsteady: more than 5 are a failure" in said) == (expected == 1)


def test_more_than_twenty_failures_have_no_second_chance(run: Play) -> None:
    status, said = run(ONCE.format(count=21), 2)
    assert status == 1
    assert said[-1] == "21 tests failed: with more than 20, none is run again"


def test_tests_that_cannot_be_collected_have_no_second_chance(run: Play) -> None:
    status, said = run(BROKEN)
    assert status == 2
    assert not any("run again" in line for line in said)
