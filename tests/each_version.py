"""Run the server part of the tests on each supported version of PostgreSQL that is found here.

``make test-versions``. A version that is not found is named, with the way to get it; a failing test
of any version fails the whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pgdyno.server import discover_installations
from pgdyno.server.versions import SUPPORTED_MAJORS

TESTS = Path(__file__).parent / "server"


def main(options: list[str]) -> int:
    """Run pytest once for each version; return 1 if any run failed, or none was made."""
    found = {each.major: each for each in reversed(discover_installations())}
    outcomes = {}
    for major in SUPPORTED_MAJORS:
        if major not in found:
            outcomes[major] = f"not found (pgdyno server get {major})"
            continue
        print(f"PostgreSQL {found[major].version} in {found[major].bindir}", flush=True)
        command = [sys.executable, "-m", "pytest", str(TESTS), *options]
        done = subprocess.run(command, env=os.environ | {"PGDYNO_TESTS_VERSION": str(major)})
        outcomes[major] = "passed" if done.returncode == 0 else "failed"
    for major, outcome in outcomes.items():
        print(f"PostgreSQL {major}: {outcome}")
    return 0 if "passed" in outcomes.values() and "failed" not in outcomes.values() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
