"""What cannot be is refused before anything is started, and ``spec check`` finds it in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Pgdyno = Callable[..., "object"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("investigate --budget 0", '"0" must be greater than 0'),
        ("compare --set fsync=off --budget 0", '"0" must be greater than 0'),
        ("price --budget 0", '"0" must be greater than 0'),
        (
            "compare --set fsync=off --slice 10min --budget 20s",
            "a pair of slices takes 20min, and the budget is 20s",
        ),
        ("compare --set fsync=off --slice 0", '"0" must be greater than 0'),
        ("run -c 10000000", "10000000: input should be less than or equal to 100000"),
        ("run -T 0", '"0" must be greater than 0'),
        ("run -T 1000000000d", "must not be longer than a year"),
        ("run -P -1", '"-1" is not a duration'),
        ("run -R nan", '"nan" is not a rate'),
        ("run -R 1e300", "less than or equal to"),
        ("run -C --pool-max 1", "a pool keeps its connections"),
        ("investigate --report /proc/x.html", "cannot write the report /proc/x.html"),
    ],
)
def test_an_option_that_cannot_be_is_refused(pgdyno: Pgdyno, words: str, message: str) -> None:
    said = pgdyno(*words.split(), "-q")
    assert (said.status, said.out, message in said.err) == (1, "", True), said.err
    assert list(Path().rglob("*.db")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[clients]]\ncount = true", "clients[0].count: expected an integer, not true"),
        ("[load]\ncpus = [true]", "load.cpus: expected an integer, not [True]"),
        ("[[clients]]\narrival = { rate = true }", "is not a rate"),
        ("[workload]\nvariables = { a = true }", "a variable must be a string or a number"),
        ("[investigate]\nbudget = '0s'", "investigate.budget: must be longer than 0"),
        ('[[story]]\ntitle = "x"\nfault = "nukes"', 'there is no fault "nukes"'),
        (
            '[[story]]\ntitle = "x"\nvary = { "load.protocl" = "simple" }',
            "load.protocl: unknown key",
        ),
        ("[server]\nsettings = { shared_bufers = '1GB' }", "has no such setting"),
        ("[server]\nsettings = { work_mem = 'lots' }", 'work_mem: invalid value for parameter "wo'),
        ("[server]\nsettings = { synchronous_commit = 'maybe' }", '"maybe" is not one of'),
        ("[[events]]\nat = '1s'\nsettings = { work_mem = 'lots' }", "work_mem: "),
        ("[price]\nladder = ['nonsense']", '"nonsense" is not on the ladder'),
        ("[price]\ncandidates = ['work_memo=3']", "has no such setting"),
        ("[server]\nbindir = '/nope'", "/nope contains no postgres"),
        ("[workload]\nscript = [{ file = 'absent.sql' }]", "absent.sql cannot be read"),
        ("[workload]\nsetup = 'absent.sql'", "absent.sql cannot be read"),
        ('[workload]\nscript = [{ file = "a\\u0000" }]', "must not contain a zero byte"),
    ],
)
def test_spec_check_finds_it(pgdyno: Pgdyno, text: str, message: str) -> None:
    Path("spec.toml").write_text(text + "\n")
    said = pgdyno("spec", "check", "spec.toml")
    assert (said.status, said.out, message in said.err) == (1, "", True), said.err


def test_truths_are_still_taken_where_they_are_meant(pgdyno: Pgdyno) -> None:
    Path("spec.toml").write_text("[server]\nsettings = { fsync = false }\nchecksums = true\n")
    said = pgdyno("spec", "check", "spec.toml")
    assert (said.status, said.err) == (0, "")
    assert 'fsync = "off"' in said.out
