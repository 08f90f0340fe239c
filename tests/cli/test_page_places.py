"""Pages are written as a whole, and over nothing but pages."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from report_runs import empty_run

Pgdyno = Callable[..., "object"]


@pytest.fixture(autouse=True)
def _recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    empty_run(tmp_path / "run.db")


def test_a_run_file_is_never_overwritten(pgdyno: Pgdyno) -> None:
    before = Path("run.db").read_bytes()
    said = pgdyno("report", "run.db", "-o", "run.db")
    assert (said.status, said.out) == (1, "")
    assert said.err == snapshot("""\
error: run.db: a file with this name exists, and it is not a report of pgdyno

hint: only reports are overwritten; choose another name or move it
""")
    assert Path("run.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"precious", b"<html>not ours</html>", b"\xff" * 9000])
def test_no_other_file_is_overwritten(pgdyno: Pgdyno, content: bytes) -> None:
    Path("run.html").write_bytes(content)
    assert pgdyno("report", "run.db").status == 1
    assert Path("run.html").read_bytes() == content


def test_a_page_replaces_a_page_and_is_for_its_owner_alone(pgdyno: Pgdyno) -> None:
    assert pgdyno("report", "run.db").status == 0
    first = Path("run.html").stat().st_ino
    assert pgdyno("report", "run.db").status == 0
    again = Path("run.html").stat()
    assert again.st_ino != first
    assert stat.S_IMODE(again.st_mode) == 0o600
    assert sorted(path.name for path in Path().iterdir()) == ["run.db", "run.html"]


def test_a_link_is_replaced_and_not_followed(pgdyno: Pgdyno) -> None:
    Path("aim").write_text("precious")
    Path("page.html").symlink_to("gone")
    assert pgdyno("report", "run.db", "-o", "page.html").status == 0
    assert not Path("gone").exists()
    assert not Path("page.html").is_symlink()
    Path("other.html").symlink_to("aim")
    assert pgdyno("report", "run.db", "-o", "other.html").status == 1
    assert Path("aim").read_text() == "precious"


def test_devices_are_written_to(pgdyno: Pgdyno) -> None:
    assert pgdyno("report", "run.db", "-o", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()
    said = pgdyno("report", "run.db", "-o", "/dev/full")
    assert (said.status, "No space left on device" in said.err) == (1, True)


def test_an_unwritable_report_is_refused_before_anything_starts(pgdyno: Pgdyno) -> None:
    Path("file").write_text("")
    for place, why in (("file/x.html", "File exists"), (".", "a directory of this name"),
                       ("/proc/x.html", "No such file"), ("run.db", "not a report of pgdyno")):  # fmt: skip
        said = pgdyno("investigate", "--report", place, "-o", "new.db", "-q")
        assert (said.status, why in said.err) == (1, True), said
        assert not Path("new.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["compare", "--set", "work_mem=8MB"],
        ["drill", "--fault", "kill"],
        ["price"],
        ["soak", "mixed", "-T", "10"],
        ["knee"],
        ["check", "-h", "nowhere.invalid"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_refuses_an_unwritable_report(pgdyno: Pgdyno, command: list[str]) -> None:
    said = pgdyno(*command, "--report", "run.db", "-q")
    assert (said.status, said.code) == (1, "report-exists"), said


def test_a_dash_is_stdout_for_a_page_and_refused_for_a_run_file(pgdyno: Pgdyno) -> None:
    said = pgdyno("report", "run.db", "-o", "-")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("<!doctype html>")
    assert said.out.rstrip().endswith("</html>")
    for words in ("run -o -", "investigate --report -", "drill --fault kill -o -"):
        said = pgdyno(*words.split(), "-q")
        assert (said.status, said.out) == (1, ""), words
        assert "stdout" in said.err
    assert [str(each) for each in Path().rglob("*") if each.is_file()] == ["run.db"]
