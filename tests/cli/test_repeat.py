"""What a page prints under "Repeat it" makes a comparable run, from another directory."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Said
from pgdyno.record import RunFile
from pgdyno.report.repeating import repeat_lines, spec_command
from pgdyno.server import Installation

Pgdyno = Callable[..., Said]

SCRIPT = "\\set id random(1, 10)\nupdate shelf set n = n + :step where id = :id;\n"
SETUP = "create table shelf as select id, 0 as n from generate_series(1, 10) id;\n"
SPEC = """
name = "shop"
server = { version = 18 }
workload = { script = [{ file = "add.sql" }], setup = "shelf.sql", variables = { step = 2 } }
load = { hold = "1s" }

[[clients]]
name = "web"
count = 3
pool = { max = 2 }

[[clients]]
name = "batch"
count = 1

[[story]]
title = "killed"
settings = { synchronous_commit = "off" }
fault = "kill"

[[story]]
title = "commits that do not wait"
settings = { synchronous_commit = "off" }
budget = "6s"
"""

ASKED = {
    "run": ("run", "shop.toml", "-M", "simple", "--standby", "async"),
    "script": ("run", "-f", "add.sql@3", "-b", "select-only@1", "-D", "step=5", "-T", "1", "-c", "2"),
    "compare": (
        *("compare", "shop.toml", "--set", "synchronous_commit=off", "--slice", "300ms"),
        *("--budget", "6s", "--base-set", "commit_siblings=7"),
    ),
    "investigate": ("investigate", "shop.toml", "--budget", "8s", "--allow", "D1", "--no-drill"),
    "drill": ("drill", "shop.toml", "--fault", "kill", "--cuts", "1", "--wal-disk", "plain"),
    "price": ("price", "shop.toml", "--ladder", "async-200ms", "--cuts", "0", "--budget", "8s"),
    "killed": ("story", "shop.toml", "--only", "1"),
}  # fmt: skip
STATUSES = (0, 3, 4)
"""What was measured is not judged here."""


@pytest.fixture(autouse=True)
def _files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installation_of: Callable[[int], Installation],
) -> None:
    installation_of(18)
    for name, text in {"add.sql": SCRIPT, "shelf.sql": SETUP, "shop.toml": SPEC}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def _unlabelled(statement: str) -> str:
    """A drill's witnesses have the load's own label in their text."""
    return re.sub(r"values \(\d+", "values (N", statement)


def _told(path: Path) -> dict[str, Any]:
    """What a run was, without what it measured."""
    with RunFile(path) as run:
        changes = [trial.change for trial in run.trials() if trial.kind in ("compare", "price")]
        return {
            "command": run.run.command,
            "spec": run.run.spec,
            "asked": list(run.run.asked),
            "changes": changes,
            "status": run.run.status,
            "statements": {_unlabelled(each.statement) for each in run.statements()},
        }


@pytest.mark.parametrize("kind", list(ASKED))
def test_the_printed_command_repeats_the_run(
    kind: str, pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "script":  # its table is the one of the setup, which -f alone has not
        (tmp_path / "add.sql").write_text("\\set id random(1, 10)\nselect :id + :step;\n")
    first = tmp_path / ("first-1.db" if kind == "killed" else "first.db")
    said = pgdyno(*ASKED[kind], "-q", "-o", "first.db")
    assert said.status in STATUSES, said.err
    for name in ("add.sql", "shelf.sql", "shop.toml"):
        (tmp_path / name).unlink()
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with RunFile(first) as run:
        (line,) = repeat_lines(run.run, first)
    program, *words = shlex.split(line)
    assert program == "pgdyno"
    again = pgdyno(*words, "-q", "-o", "second.db")
    assert again.status in STATUSES, again.err
    before, after = _told(first), _told(Path("second.db"))
    assert after == before


def test_a_spec_saved_from_a_run_repeats_it_too(
    pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pgdyno("run", "shop.toml", "-q", "-o", "first.db").status == 0
    spec = pgdyno("show", "first.db", "--format", "spec").out
    for name in ("add.sql", "shelf.sql", "shop.toml"):
        (tmp_path / name).unlink()
    with RunFile(tmp_path / "first.db") as run:
        _, *words = shlex.split(spec_command(run.run))
    Path("shop.toml").write_text(spec)
    again = pgdyno(*words, "-q", "-o", "second.db")
    assert again.status == 0, again.err
    assert _told(Path("second.db")) == _told(Path("first.db"))


def test_a_run_file_is_a_spec_with_options_over_it(pgdyno: Pgdyno, tmp_path: Path) -> None:
    asked = ("-c", "3", "-T", "1", "--pool-max", "2", "-q", "--format", "json")
    assert pgdyno("run", *asked, "-o", "old.db").status == 0
    checked = pgdyno("spec", "check", "old.db")
    assert checked.status == 0
    assert "count = 3" in checked.out
    said = pgdyno("run", "old.db", "-c", "2", *asked[4:], "-o", "new.db")
    assert said.status == 0, said.err
    with RunFile(tmp_path / "new.db") as run:
        (group,) = run.run.spec["clients"]
        assert (group["count"], group["pool"]["max"]) == (2, 2)
    assert json.loads(said.out)["run_file"] == "new.db"


def test_a_whole_story_is_in_each_of_its_chapters(pgdyno: Pgdyno, tmp_path: Path) -> None:
    assert pgdyno("story", "shop.toml", "--only", "1", "-q", "-o", "s.db").status == 0
    for name in ("add.sql", "shelf.sql", "shop.toml"):
        (tmp_path / name).unlink()
    said = pgdyno("story", "s-1.db", "--only", "1", "-q", "-o", "again.db")
    assert said.status == 0, said.err
    with RunFile(tmp_path / "again-1.db") as run:
        assert len(run.run.result["chapter"]["of"]["story"]) == 2
