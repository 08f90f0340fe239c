"""Whatever a run file has gone through: a summary and a page of what is left, or one message."""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from price_runs import price_run
from report_runs import comparison_run, investigation_run, plain_run
from rich.console import Console

from pgdyno.cli import _status
from pgdyno.record import RunFile
from pgdyno.report import terminal_summary, write_html


def change(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for each in statements:
        db.execute(each)
    db.commit()
    db.close()


def refusal(path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """The message that a summary and a page are refused with."""
    said = []
    for arguments in (["show", str(path)], ["report", str(path), "-o", str(path) + ".html"]):
        monkeypatch.setattr("sys.argv", ["pgdyno", *arguments])
        status, captured = _status(), capfd.readouterr()
        assert (status, captured.out) == (1, ""), captured
        said.append(captured.err)
    assert said[0] == said[1]
    return said[0]


def in_a_trial(path: Path) -> tuple[str, ...]:
    """As if pgdyno had been killed 1.8 s into the last pair."""
    with RunFile(path) as run:
        moment = run.slices()[-1].started_ms + 1800
    db = sqlite3.connect(path)
    sql = "select m.name from sqlite_schema m, pragma_table_info(m.name) c where c.name = 'at_ms'"
    timed = [table for (table,) in db.execute(sql)]
    db.close()
    return (
        *(f"delete from {table} where at_ms > {moment}" for table in timed),
        f"update slice set ended_ms = null where ended_ms > {moment}",
        "update run set status = 'running', ended_ms = null, result_json = '{}'",
        "update run set writer_json = '{}'",
    )


NOBODY_WAITED = "update wait_sample set count = 0"


@pytest.mark.parametrize("make", [comparison_run, investigation_run])
def test_a_run_stopped_within_a_trial_is_reported(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path / "run.db")
    change(path, *in_a_trial(path), NOBODY_WAITED)
    output = io.StringIO()
    with RunFile(path) as run:
        terminal_summary(run, Console(file=output, width=120))
        assert "interrupted" in write_html(run, tmp_path / "page.html").read_text()
    assert "interrupted" in output.getvalue()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("drop table interval", "is damaged: no such table: interval"),
        ("alter table run drop column host_json", "is damaged: a RunInfo has no valid host"),
        ("update run set spec_json = '[]'", "is damaged: a RunInfo has no valid spec"),
        ("update run set server_json = 'x'", "is damaged: a record in it is not JSON"),
        ("update slice set started_ms = 'x'", "is damaged: a Slice has no valid started_ms"),
        ("delete from run", "is damaged: a required row is missing"),
        ("update interval set response_hist = x'00'", "is damaged: a histogram in it cannot be"),
    ],
)
def test_values_that_cannot_be(
    statement: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = plain_run(tmp_path / "run.db")
    change(path, statement)
    message = refusal(path, monkeypatch, capfd)
    assert said in message
    assert message.count("error: ") == 1


@pytest.mark.parametrize(
    ("make", "result"),
    [
        (plain_run, '{"prices": [{}], "chapter": 1}'),
        (comparison_run, '{"distrust": 5}'),
        (investigation_run, '{"prices": [{}], "chapter": 1}'),
        (price_run, '{"distrust": 5}'),
    ],
)
def test_a_result_that_cannot_be_read_is_missing_and_said_to_be(
    make: Callable[[Path], Path], result: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "run.db")
    change(path, f"update run set result_json = '{result}'")
    output = io.StringIO()
    with RunFile(path) as run:
        terminal_summary(run, Console(file=output, width=120))
        page = write_html(run, tmp_path / "page.html").read_text()
    assert "the recorded result cannot be read" in output.getvalue()
    assert "The result is missing." in page
    assert "unknown" in page


def test_what_is_no_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "link").symlink_to("link")
    change(tmp_path / "other.db", "create table t (a int)")
    for name, said in {
        "pipe": "pipe is not a regular file",
        "folder": "cannot read",
        "empty": "is not a run file of pgdyno",
        "link": "cannot read",
        "other.db": "is an SQLite database, but not a run file of pgdyno",
        "/dev/zero": "/dev/zero is not a regular file",
    }.items():
        monkeypatch.chdir(tmp_path)
        message = refusal(Path(name), monkeypatch, capfd) if name != "/dev/zero" else None
        assert message is None or said in message


def test_bytes_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    path = plain_run(tmp_path / "run.db")
    change(path, "update run set name = cast(x'61ff1b62' as text)")
    with RunFile(path) as run:
        assert run.run.name == r"a\xff\x1bb"
