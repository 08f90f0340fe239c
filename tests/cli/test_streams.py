"""Every command and format, whatever stdout and stderr are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from report_runs import plain_run

COMMANDS = {
    "help": ["--help"],
    "text": ["show", "run.db"],
    "json": ["show", "run.db", "--format", "json"],
    "report": ["report", "run.db"],
    "check": ["spec", "check", "ours.toml"],
}
EACH = pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(arguments, id=name, marks=[pytest.mark.long] if name == "report" else [])
        for name, arguments in COMMANDS.items()
    ],
)
"""A page takes seconds to draw, and what is printed of it is one line."""
PGDYNO = f"{sys.executable} -m pgdyno"


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("streams")
    plain_run(folder / "run.db")
    (folder / "ours.toml").write_text('description = "ünï — 数"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def shell(
    arguments: list[str], redirection: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    words = " ".join(arguments)
    return subprocess.run(
        ["bash", "-c", f"{PGDYNO} {words} {redirection}"],
        capture_output=True, text=True, errors="replace", timeout=300,
        env=os.environ | environment,
    )  # fmt: skip


@EACH
def test_a_full_disk_behind_stdout_is_told(arguments: list[str]) -> None:
    done = shell(arguments, ">/dev/full")
    assert done.stderr == snapshot("""\
error: cannot write the result: No space left on device

hint: redirect stdout to a writable file
""")
    assert done.returncode == 2


@EACH
def test_a_reader_that_left_changes_nothing(arguments: list[str]) -> None:
    done = shell(arguments, "| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")


@EACH
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>&-"])
def test_closed_streams_change_nothing(arguments: list[str], closed: str) -> None:
    done = shell(arguments, closed)
    assert (done.returncode, done.stderr) == (0, "")


@EACH
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["latin-1", "C"],
)
def test_an_encoding_that_lacks_letters(arguments: list[str], environment: dict[str, str]) -> None:
    done = shell(arguments, "", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "数" in done.stdout or r"\u6570" in done.stdout or "check" not in arguments


def test_messages_that_nobody_can_read_change_no_status() -> None:
    for redirection in ("2>/dev/full", "2>&-", ">&- 2>&-"):
        done = shell(["show", "absent.db"], redirection)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_no_file_of_ours_answers_to_a_closed_stream() -> None:
    before = Path("run.db").read_bytes()
    assert shell(["show", "run.db"], ">&- 2>&- <&-").returncode == 0
    assert Path("run.db").read_bytes() == before


def test_names_that_are_not_utf8() -> None:
    name = b"r\xff\x1b.db"
    Path(os.fsdecode(name)).write_bytes(Path("run.db").read_bytes())
    for arguments, said in (
        ([b"show", name], rb"r\xff\x1b.db"),
        ([b"report", name], rb"r\xff\x1b.html"),
        ([b"show", b"absent\xff"], rb"absent\xff"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", *arguments], capture_output=True, timeout=300
        )
        assert b"internal" not in done.stderr
        assert b"\x1b" not in done.stdout + done.stderr
        assert arguments == [b"show", name] or said in done.stdout + done.stderr


def test_a_password_among_the_arguments_is_in_no_process_list() -> None:
    """Read while the command waits for the name of a run file, which is a pipe here."""
    code = (
        "import signal, sys; from pgdyno.cli.process import hide_passwords; hide_passwords();"
        "print(flush=True); signal.pause()"
    )
    words = ["run", "postgresql://joe:s3cr3t@db/prod", "password=s3cr3t", "-c", "3"]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert [each.strip() for each in shown[-6:-1]] == [
        *(b"run", b"postgresql://joe:***@db/prod", b"password=***", b"-c", b"3")
    ]


def test_a_run_of_one_transaction_loads_no_numpy(tmp_path: Path) -> None:
    """Loading it takes longer than all that such a run computes."""
    words = ("run", "select-only", "-c", "1", "-t", "1", "-q")
    command = [sys.executable, "-X", "importtime", "-m", "pgdyno", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pgdyno.trial.result" in loaded
    assert not {"numpy", "scipy", "bokeh"} & loaded
