"""The stand-in for ``importlib.metadata``: its answers are the real one's, which it gives way to."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

BEGIN = "import sys; from pgdyno.cli.metadata import stand_in; stand_in()\n"


def printed(program: str) -> list[str]:
    """Return the words that a program prints after the stand-in has taken its place."""
    command = [sys.executable, "-c", BEGIN + program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_the_versions_of_psycopg_need_no_parser_of_mail() -> None:
    program = "import psycopg, psycopg_binary; print(psycopg.__version__)"
    program += "; print(psycopg_binary.__version__); print('email.parser' in sys.modules)"
    assert printed(program) == [version("psycopg"), version("psycopg-binary"), "False"]


def test_whoever_asks_for_more_gets_the_real_module() -> None:
    program = (
        "from importlib.metadata import distribution, entry_points\n"
        "import importlib.metadata\n"
        "print(distribution('click').version, importlib.metadata.metadata('click')['Name'])\n"
        "print(len(entry_points(group='console_scripts')) > 0)\n"
    )
    assert printed(program) == [version("click"), "click", "True"]


def test_a_package_that_is_not_there_is_the_real_error() -> None:
    program = (
        "from importlib import metadata\n"
        "try: metadata.version('no-such-package')\n"
        "except metadata.PackageNotFoundError: print('missing')\n"
    )
    assert printed(program) == ["missing"]
