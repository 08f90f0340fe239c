"""Run the tests, and give those that failed a second chance in the open: ``make test``.

What failed is run once more after all others, in one process. If that passes, the run passes, and
its last lines name each such test as unsteady: its outcome depends on something that it does not
control, and it is to be mended. At most ``UNSTEADY_MAX`` get through; where more than
``FAILURES_MAX`` failed at first, something else is wrong, and nothing is run again.

Arguments are those of pytest. The exit status is pytest's: 0, 1 where tests failed, or another
where they could not be run, which has no second chance.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

UNSTEADY_MAX = 5
FAILURES_MAX = 20
PASSED, FAILED = 0, 1
"""Exit statuses of pytest; all others say that the tests could not be run."""


def main(arguments: list[str]) -> int:
    """Run pytest, twice where tests failed; return the exit status of the whole."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-second-chance-") as cache:
        status, failed = _run(cache, arguments)
        if status != FAILED or not failed:
            return status
        if len(failed) > FAILURES_MAX:
            print(f"{len(failed)} tests failed: with more than {FAILURES_MAX}, none is run again")
            return FAILED
        print(f"\n{_tests(len(failed))} failed, and run again, alone", flush=True)
        # Skipped the second time is not passed.
        strict = {"PGDYNO_TESTS_SKIP_NOTHING": "1"}
        alone = ["--last-failed", "--numprocesses", "0", "--dist", "no"]
        status, failed_again = _run(cache, [*arguments, *alone], strict)
    return _verdict(failed, failed_again, status)


def _run(
    cache: str, arguments: list[str], environment: dict[str, str] | None = None
) -> tuple[int, set[str]]:
    """Run pytest; return its exit status and the tests that failed."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    status = subprocess.run(command, env=os.environ | (environment or {})).returncode
    try:
        failed = json.loads((Path(cache) / "v/cache/lastfailed").read_text())
    except FileNotFoundError:
        failed = {}
    return status, set(failed)


def _verdict(failed: set[str], failed_again: set[str], status: int) -> int:
    """Name the tests that failed only once; return the exit status."""
    if status not in (PASSED, FAILED):
        return status
    unsteady = sorted(failed - failed_again)
    if len(unsteady) > UNSTEADY_MAX:
        print(f"{len(unsteady)} tests are unsteady: more than {UNSTEADY_MAX} are a failure")
        status = FAILED
    for test in sorted(failed_again):
        print(f"failed twice: {test}")
    for test in unsteady:
        print(f"unsteady: {test}")
    return status


def _tests(count: int) -> str:
    return f"{count} test" if count == 1 else f"{count} tests"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
