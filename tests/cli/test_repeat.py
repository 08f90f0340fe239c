"""What a page prints under "Repeat it" makes a comparable run, from another directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from inline_snapshot import snapshot
from printed import Said

from pgdyno.conduct import read_spec_or_run
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.errors import UsageError
from pgdyno.record import Recorder, RunFile
from pgdyno.report.words import accounts
from pgdyno.report.words.repeat import repeat_lines, spec_command
from pgdyno.server import Installation
from pgdyno.spec import Spec
from pgdyno.workload import with_texts

Pgdyno = Callable[..., Said]

LENGTHY = ("compare", "investigate")
# What was measured is not judged here: the pause leaves the cores to the other tests.
SCRIPT = "\\set id random(1, 10)\nupdate shelf set n = n + :step where id = :id;\n\\sleep 20 ms\n"
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
        *("--budget", "18s", "--base-set", "commit_siblings=7"),
    ),
    "investigate": ("investigate", "shop.toml", "--budget", "8s", "--allow", "D1", "--no-drill"),
    "drill": ("drill", "shop.toml", "--fault", "kill", "--cuts", "1", "--wal-disk", "plain"),
    "price": ("price", "shop.toml", "--ladder", "async-200ms", "--cuts", "0", "--budget", "20s"),
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


def _without_neighbours(load: dict[str, Any]) -> dict[str, Any]:
    """Without how much of the machine others may have: the fixture says it to most commands."""
    return {key: value for key, value in load.items() if key != "max_other_programs"}


def _told(path: Path) -> dict[str, Any]:
    """What a run was, without what it measured."""
    with RunFile(path) as run:
        changes = [trial.change for trial in run.trials() if trial.kind in ("compare", "price")]
        return {
            "command": run.run.command,
            "spec": {**run.run.spec, "load": _without_neighbours(run.run.spec["load"])},
            "asked": sorted(run.run.asked),
            "changes": changes,
            "status": run.run.status,
            "statements": {_unlabelled(each.statement) for each in run.statements()},
        }


def _stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands stop once it is recorded what they were asked, before a server is started."""

    def record(
        command: str,
        _load: Any,
        _progress: Any,
        spec: Spec,
        text: str,
        path: Path,
        asked: Sequence[str] = (),
        **_how: Any,
    ) -> NoReturn:
        fields = recorded_fields(with_texts(spec))
        recorder = Recorder.create(
            path, name=spec.name, command=command, spec=fields, server={"kind": "embedded"}
        )
        recorder.update_run(asked=list(asked))
        recorder.finish("done")
        raise UsageError("enough", code="enough")

    monkeypatch.setattr("pgdyno.cli.session.session_for", record)


def _repeat(
    first: Path, pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Runs what the page of ``first`` prints, from another directory, its files gone."""
    for name in ("add.sql", "shelf.sql", "shop.toml"):
        (tmp_path / name).unlink()
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with RunFile(first) as run:
        (line,) = repeat_lines(run)
    program, *words = shlex.split(line)
    assert program == "pgdyno"
    again = pgdyno(*words, "-q", "-o", "second.db")
    assert again.status in STATUSES, again.err
    return _told(Path("second.db"))


@pytest.mark.parametrize("kind", ["run", "drill", pytest.param("killed", marks=pytest.mark.long)])
def test_the_printed_command_repeats_the_run(
    kind: str, pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = pgdyno(*ASKED[kind], "-q", "-o", "first.db")
    assert said.status in STATUSES, said.err
    first = tmp_path / ("first-1.db" if kind == "killed" else "first.db")
    assert _repeat(first, pgdyno, tmp_path, monkeypatch) == _told(first)
    if kind == "killed":  # the whole story is in each of its chapters
        story, _ = read_spec_or_run(first, story=True)
        assert [chapter.title for chapter in story.story] == ["killed", "commits that do not wait"]


@pytest.mark.parametrize(
    "kind",
    ["script", "price", *(pytest.param(each, marks=pytest.mark.long) for each in LENGTHY)],
)
def test_what_was_asked_is_asked_again(
    kind: str, pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "script":  # its table is the one of the setup, which -f alone has not
        (tmp_path / "add.sql").write_text("\\set id random(1, 10)\nselect :id::int + :step;\n")
    with monkeypatch.context() as patched:
        _stop_early(patched)
        assert pgdyno(*ASKED[kind], "-q", "-o", "first.db").err.startswith("error: enough")
    before = _told(tmp_path / "first.db")
    after = _repeat(tmp_path / "first.db", pgdyno, tmp_path, monkeypatch)
    for key in ("command", "spec", "asked", "status"):
        assert after[key] == before[key]
    if kind == "compare":
        assert [change["settings"] for change in after["changes"]] == [
            {"synchronous_commit": "off"}
        ]


def test_a_spec_saved_from_a_run_is_that_of_the_run(
    pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stop_early(monkeypatch)
    pgdyno(*ASKED["run"], "-q", "-o", "first.db")
    with RunFile(tmp_path / "first.db") as run:
        shortened = accounts.spec_lines(run.run.spec)
        _, command, name, *words = shlex.split(spec_command(run))
    texts = ("\n".join(shortened), pgdyno("show", "first.db", "--format", "spec").out)
    for number, text in enumerate(texts):
        monkeypatch.chdir(tmp_path)
        Path(f"folder-{number}").mkdir()
        monkeypatch.chdir(tmp_path / f"folder-{number}")
        Path(name).write_text(text)
        pgdyno(command, name, *words, "-q", "-o", "second.db")
        assert _told(Path("second.db")) == _told(tmp_path / "first.db")


def test_a_run_file_is_a_spec_with_options_over_it(
    pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stop_early(monkeypatch)
    pgdyno("run", "-c", "3", "-T", "1", "--pool-max", "2", "-q", "-o", "old.db")
    checked = pgdyno("spec", "check", "old.db")
    assert checked.status == 0
    assert "count = 3" in checked.out
    pgdyno("run", "old.db", "-c", "2", "-q", "-o", "new.db")
    with RunFile(tmp_path / "new.db") as run:
        (group,) = run.run.spec["clients"]
        assert (group["count"], group["pool"]["max"]) == (2, 2)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--set", "synchronous_commit=off"),
        ("investigate",),
        ("knee",),
        ("pool",),
        ("storm",),
        ("soak",),
        ("age", "--to", "1.7e9"),
        ("price", "--ladder", "async-200ms", "--cuts", "0"),
    ],
    ids=lambda words: words[0],
)
def test_a_number_of_transactions_of_a_run_file_is_left_out(
    words: tuple[str, ...], pgdyno: Pgdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command measures for a time, and the limit of the time for them was no wish."""
    _stop_early(monkeypatch)
    pgdyno("run", "-t", "40", "-c", "2", "-q", "-o", "counted.db")
    command, *options = words
    said = pgdyno(command, "counted.db", *options, "-o", "new.db")
    assert said.err.startswith("note: counted.db is of a run with a number of transactions (-t)")
    assert f"pgdyno {command} measures for a time" in said.err
    with RunFile(tmp_path / "new.db") as run:
        assert (run.run.spec["load"]["transactions"], run.run.spec["load"]["hold"]) == (None, "30s")


def test_a_number_of_transactions_of_a_spec_is_refused(pgdyno: Pgdyno, tmp_path: Path) -> None:
    Path("counted.toml").write_text("[load]\ntransactions = 40\n")
    said = pgdyno("compare", "counted.toml", "--set", "synchronous_commit=off")
    assert (said.status, said.code) == (1, "contradiction")
    assert said.err == snapshot("""\
error: load.transactions cannot be used with pgdyno compare: its slices have a fixed time

hint: remove load.transactions from the spec; it is for pgdyno run
""")
