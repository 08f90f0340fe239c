"""Errors name the option that was typed; abbreviations, names of run files, odd arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.cli.files import run_path
from pgdyno.record import Recorder
from pgdyno.record.reserving import release

Pgdyno = Callable[..., "object"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-T 0", "invalid value for '-T' / '--time': \"0\" must be greater than 0"),
        (
            "-l --aggregate-interval 2 -T 3",
            "-T, 3s, must be a multiple of --aggregate-interval, 2s",
        ),
        (
            "-l --aggregate-interval 2 --sampling-rate 0.5 -T 4",
            "--sampling-rate and --aggregate-interval cannot be used together",
        ),
        ("-j 99999 -c 99999", "-j: 99999: input should be less than or equal to 1024"),
        ("-I x", '-I: "x" is not an initialization step'),
        (
            "--partition-method=hash",
            "--partition-method can only be used with --partitions above 0",
        ),
        ("-f a.sql@-1", '-f a.sql@-1: the weight "-1" is not a whole number, 0 or more'),
        ("-V", "no such option '-V'"),
        ("--trans=0", "invalid value for '-t' / '--transactions': 0 is not in the range x>=1"),
        ("--tran 0", "invalid value for '-t' / '--transactions': 0 is not in the range x>=1"),
        ("--clien x", "invalid value for '-c' / '--clients' / '--client'"),
        ("--pr=2", "no such option '--pr'"),
        ("-h db..example -d x", "the host db..example is not known"),
        ("-h . -d x", "the host . is not known"),
        ("-f /dev/zero", "the script /dev/zero cannot be read: it is a pipe, a socket or a device"),
    ],
)
def test_the_option_that_was_typed_is_named(pgdyno: Pgdyno, words: str, message: str) -> None:
    said = pgdyno("run", *words.split())
    assert said.status == 1
    assert said.err.partition("error: ")[2].startswith(message)


@pytest.mark.parametrize(
    "words",
    [
        ["server", "sweep", "x\udcff"],
        ["compare", "shop", "--set", "search_path=\udcff"],
        ["compare", "-h", "127.0.0.1", "--set", "a\udcff=b"],
        ["run", "-D", "a=\udcff"],
        ["run", "-d", "\udcff"],
        ["run", "-U", "\udcff"],
        ["spec", "check", "/dev/zero"],
        ["run", "-h", "a" * 64, "-d", "x"],
        ["cleanup", "postgresql://db..example/x"],
    ],
)
def test_odd_arguments_are_no_internal_error(pgdyno: Pgdyno, words: list[str]) -> None:
    said = pgdyno(*words)
    assert said.status == 1
    assert "internal error" not in said.err


def test_two_runs_of_one_second_have_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(strftime=lambda _: "now")
    monkeypatch.setattr("pgdyno.cli.files.time", clock)
    first, *others = [run_path(None, "spec") for _ in range(3)]
    assert [each.stem for each in (first, *others)] == ["spec-now", "spec-now-2", "spec-now-3"]
    with Recorder.create(first, name="spec", command="run") as run:
        run.finish("done")
    assert first.stat().st_size > 0
    release()
    assert first.exists()
    assert not any(each.exists() for each in others)


def test_a_run_file_may_be_in_a_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_path("new/within/x.db", "spec") == Path("new/within/x.db")
    assert not list(Path("new/within").iterdir())
