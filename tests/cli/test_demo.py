"""Scenarios that come with the package, and completion in the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from printed import Said

Pgdyno = Callable[..., Said]


def test_scenarios_are_listed(pgdyno: Pgdyno) -> None:
    said = pgdyno("demo", "--list")
    assert said.status == 0
    for name in ("business", "four-days", "microservices", "pgpool-storm", "wal-on-ram", "wraparound-day",
                 "write-heavy-web"):  # fmt: skip
        assert name in said.out


def test_scenarios_are_copied_once(pgdyno: Pgdyno, tmp_path: Path) -> None:
    to = tmp_path / "mine"
    said = pgdyno("demo", "--copy", str(to))
    assert said.status == 0
    assert pgdyno("spec", "check", str(to / "microservices.toml")).status == 0
    again = pgdyno("demo", "--copy", str(to))
    assert (again.status, again.err) == (1, f"error: --copy {to}: already exists\n")


def test_an_unknown_scenario(pgdyno: Pgdyno) -> None:
    said = pgdyno("demo", "nonsense")
    assert said.status == 1
    assert said.err == snapshot("""\
error: "nonsense" is not a scenario

hint: scenarios are business, four-days, freeze-branches, microservices, partitioned-ingest, pgpool-storm, threads, tomcat-dbcp, wal-on-ram, wraparound-day, write-heavy-web
""")


def test_a_budget_is_for_investigations(pgdyno: Pgdyno) -> None:
    said = pgdyno("demo", "wal-on-ram", "--budget", "10s")
    assert (said.status, said.code, "--budget" in said.err) == (1, "contradiction", True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_a_shell(pgdyno: Pgdyno, shell: str) -> None:
    said = pgdyno("completion", shell)
    assert said.status == 0
    assert "_PGDYNO_COMPLETE" in said.out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pgdyno inv", "plain,investigate"),
        ("pgdyno run tpc", "plain,tpcb-like"),
        ("pgdyno run -b sel", "plain,select-only"),
        ("pgdyno run --when-busy sk", "plain,skip"),
    ],
)
def test_words_are_completed(words: str, offered: str) -> None:
    environment = {
        **os.environ,
        "_PGDYNO_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from pgdyno.cli import main; main()"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert offered in done.stdout.splitlines(), done.stderr
