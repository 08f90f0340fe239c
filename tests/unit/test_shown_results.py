"""Everything that is shown of recorded runs, whole: terminal, page, JSON and CSV of each command.

A change that is to change nothing leaves ``shown/`` as it is; any other is read as its difference.
``--inline-snapshot=fix`` writes what is shown now.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from inline_snapshot import external_file
from recorded_runs import NAMES, restore

from pgdyno.cli import cli
from pgdyno.record import RunFile
from pgdyno.registry import held_by
from pgdyno.report import views
from pgdyno.report.page.html import render, render_story
from pgdyno.report.view import View
from pgdyno.results import result_type

CHAPTERS = [name for name in NAMES if name.startswith("story-")]
_NOT_TEXT = ("script", "style")
_WITHIN_LINE = ("a", "b", "code", "em", "i", "small", "span", "strong", "sub", "sup", "time")


class _Text(HTMLParser):
    """The text of a page, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in _NOT_TEXT
        if tag not in _WITHIN_LINE:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _NOT_TEXT
        if tag not in _WITHIN_LINE:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.lines[-1] += data


def text_of_page(page: str) -> str:
    """The text of an HTML page, without its scripts and the directory of the run file."""
    parser = _Text()
    parser.feed(page.replace(f"{Path.cwd()}/", ""))
    lines = (" ".join(line.split()) for line in parser.lines)
    return "".join(f"{line}\n" for line in lines if line)


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")


def shown(*words: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def unfinished(path: Path) -> None:
    """Leave the run as it is when its command is killed at the end."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update run set result_json = '{}', status = 'interrupted'")


def test_each_command_with_a_result_is_recorded() -> None:
    commands = {view.command for view in held_by(views, View)}
    assert {command for command in commands if result_type(command)} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_terminal(name: str) -> None:
    path = restore(name, Path())
    assert shown("show", str(path)) == external_file(f"shown/{name}.txt")
    unfinished(path)
    assert shown("show", str(path)) == external_file(f"shown/{name}.unfinished.txt")


@pytest.mark.parametrize("name", NAMES)
def test_page(name: str) -> None:
    with RunFile(restore(name, Path())) as run:
        assert text_of_page(render(run)) == external_file(f"shown/{name}.page.txt")


@pytest.mark.parametrize("name", NAMES)
def test_json(name: str) -> None:
    path = restore(name, Path())
    assert shown("show", str(path), "--format", "json") == external_file(
        f"shown/{name}.json", format=".txt"
    )


@pytest.mark.parametrize("name", NAMES)
def test_csv(name: str) -> None:
    path = restore(name, Path())
    assert shown("show", str(path), "--format", "csv") == external_file(
        f"shown/{name}.csv", format=".txt"
    )


def test_page_of_a_story() -> None:
    runs = [RunFile(restore(name, Path())) for name in CHAPTERS]
    assert text_of_page(render_story(runs)) == external_file("shown/story.page.txt")


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_diff(output_format: str) -> None:
    a, b = (str(restore(name, Path())) for name in ("run", "groups"))
    assert shown("diff", a, b, "--format", output_format) == external_file(
        f"shown/diff.{output_format}", format=".txt"
    )
