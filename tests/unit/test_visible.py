"""Control characters of servers, scripts and file names are escaped in every medium."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from report_runs import comparison_run, plain_run
from rich.console import Console

from pgdyno.cli.output import print_csv, print_result, printable, printable_lines
from pgdyno.escaping import visible, visible_line
from pgdyno.record import RunFile
from pgdyno.report import statement_lines, terminal_summary, write_html
from pgdyno.report.terminal._lines import Line, print_lines

HOSTILE = "\x1b]0;owned\x07\x1b[31m[red]x[/red]\r\u202e\x00\u2066\x9b2J"
SHOWN = r"\x1b]0;owned\x07\x1b[31m[red]x[/red]\x0d\u202e\x00\u2066\x9b2J"


def unfit(text: str) -> list[str]:
    """Characters that a terminal or a page would obey."""
    return [c for c in text if visible(c) != c]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("naïve – 数据\n\tüber 😀", "naïve – 数据\n\tüber 😀"),
        (HOSTILE, SHOWN),
        ("a\r\nb", "a\nb"),
        ("\udcff\ud800", r"\xff\ud800"),
        ("\ufeff\u200b\U000e0041", r"\ufeff\u200b\U000e0041"),
    ],
)
def test_what_would_be_obeyed_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(), max_size=30))
def test_visible_text_can_be_printed_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
    shown.encode()


def hostile_run(folder: Path) -> Path:
    name = folder / os.fsdecode(b"run\xff\x1b.db")
    clients = [{"name": HOSTILE}]
    spec = {"name": "x", "workload": {"script": HOSTILE}, "clients": clients}
    return plain_run(name, server={"version": f"18.6 {HOSTILE}"}, spec=spec)


def test_a_page_shows_hostile_text(tmp_path: Path) -> None:
    with RunFile(hostile_run(tmp_path)) as run:
        page = write_html(run, tmp_path / "page.html").read_text()
    assert "owned" in page
    assert "\x1b" not in page
    assert "\x00" not in page
    assert "\x9b" not in page
    assert "\u202e" not in page.partition("<script")[0]


def test_a_summary_shows_hostile_text(tmp_path: Path) -> None:
    output = io.StringIO()
    with RunFile(hostile_run(tmp_path)) as run:
        terminal_summary(run, Console(file=output, width=120))
    assert "owned" in output.getvalue()
    assert unfit(output.getvalue()) == []


def test_progress_and_csv_and_json_show_hostile_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printable(f"{HOSTILE} postgresql://joe:pw@db") == f"{SHOWN} postgresql://joe:***@db"
    print_csv([{"name": HOSTILE, "count": 1}])
    printed = capsys.readouterr().out
    assert unfit(printed.replace("\r\n", "\n")) == []
    assert next(csv.DictReader(io.StringIO(printed)))["name"] == SHOWN
    print_result("json", tmp_path, {"name": HOSTILE + "\x7f"})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert unfit(printed) == []
    assert json.loads(printed)["name"] == HOSTILE + "\x7f"


def test_findings_and_trials_of_hostile_servers_are_shown(tmp_path: Path) -> None:
    path = comparison_run(tmp_path / "compared.db")
    with sqlite3.connect(path) as db:
        db.execute("update trial set title = ?, sentence = ?", [HOSTILE, HOSTILE])
        db.execute("update finding set sentence = ?", [HOSTILE])
        db.execute("update run set status_detail = ?", [HOSTILE])
    db.close()
    output = io.StringIO()
    with RunFile(path) as run:
        assert unfit("".join(f.sentence for f in run.findings())) == []
        terminal_summary(run, Console(file=output, width=120))
        page = write_html(run, tmp_path / "page.html").read_text()
    assert unfit(output.getvalue()) == []
    assert "\x1b" not in page
    assert r"\u001b" not in page


@given(st.text(st.characters(), max_size=30))
def test_no_name_begins_a_line(name: str) -> None:
    # What stands behind an open quote after this word may be a password: all of it is hidden.
    assume("password" not in name.lower())
    said = f'the table "{name}" is large'
    output = io.StringIO()
    print_lines([Line(said)], Console(file=output, width=400))
    for shown in (visible_line(said), printable(said), output.getvalue().removesuffix("\n")):
        assert "\n" not in shown
    lines = printable_lines(f"2 settings cannot be used\n  {said}\n  b").split("\n")
    assert all(line.startswith("  ") for line in lines[1:])
    assert lines[-1] == "  b"


def test_names_of_a_run_file_begin_no_line(tmp_path: Path) -> None:
    name = "x\nerror: forged\r\nhint: forged"
    path = comparison_run(tmp_path / "compared.db")
    with sqlite3.connect(path) as db:
        db.execute("update trial set title = ?, sentence = ?", [name, name])
        db.execute("update finding set sentence = ?", [name])
        db.execute("update run set status_detail = ?, name = ?", [name, name])
        db.execute("update statement set text = text || ?", [name])
        db.execute("update statement_interval set statement = statement || ?", [name])
        db.execute("update error set message = ?, statement = ?, detail = ?", [name, name, name])
    db.close()
    output = io.StringIO()
    with RunFile(path) as run:
        terminal_summary(run, Console(file=output, width=120))
        said = [*output.getvalue().splitlines(), *map(visible_line, statement_lines(run))]
    assert "forged" in output.getvalue()
    assert [line for line in said if line.startswith(("error:", "hint:"))] == []
