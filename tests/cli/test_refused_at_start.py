"""What cannot be is refused before anything is started, and ``spec check`` finds it in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

Pgdyno = Callable[..., "object"]


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
        (
            "compare --set shared_buffers=256MB --budget 30s",
            "--budget 30s: a verdict needs about 75 s: 6 pairs of slices and as many identical"
            " ones, each slice 800ms, with restarts of the server and checkpoints"
            " in between",
        ),
        ("compare --set fsync=off --budget 10s", "--budget 10s: a verdict needs about"),
        (
            "compare --set synchronous_commit=off --budget 30s",
            "hint: --budget 35s",
        ),
        (
            "price --ladder async-200ms,fpw-off --cuts 2 --budget 100s",
            "--budget 100s: this list needs about",
        ),
        ("price --ladder async-200ms --cuts 0 --budget 8s", "hint: --budget 20s"),
        (
            "compare --set fsync=off --slice 5s --budget 60s",
            "hint: --budget 130s, or shorter slices (--slice)",
        ),
        ("knee --budget 10s", "--budget 10s: a search needs at least 30s"),
        ("knee --slo p99>20ms", '"p99>20ms" is not a limit such as p99<20ms'),
        ("knee --slo p99<20", '"20" needs a unit'),
        ("knee --slo p98<20ms", '"p98" is none of p50'),
        ("knee --slo p99<20ms --think 1s", "clients that send at a rate do not pause"),
        ("knee --group web", 'the spec has no client group "web"'),
        ("knee -c 0", "0 is not in the range"),
        ("knee -t 5", "-t"),
        ("pool --budget 10s", "--budget 10s: a search needs at least 30s"),
        ("pool -c 1", "has one client, which needs one connection"),
        ("pool -C", "makes new connections all the time"),
        ("pool --group web", 'the spec has no client group "web"'),
        ("pool --instances 0", "0 is not in the range"),
        ("soak --keep-free much", '"much" is not a size'),
        ("soak --standby async", "standby cannot be used with pgdyno soak"),
        ("soak --data-disk tmpfs:1GB", "disk cannot be used with pgdyno soak"),
        ("storm --budget 10s", "--budget 10s: a search for storms needs at least 20 s"),
        ("storm -C", "make new connections all the time, and those of a storm connect and stay"),
        ("storm --group web", 'the spec has no client group "web"'),
        ("storm --shape rain", "is not one of"),
        ("storm -c 0", "0 is not in the range"),
        ("branch", "tpcb-like has no branches"),
        ("branch --rounds 2", "2 is not in the range"),
        ("age", "error: the age is missing"),
        ("age --multixact", "error: the age is missing"),
        ("age --to old", "--to old: an age is a number from 1 to 2,146,983,648"),
        ("age --to 1e9 shop", '"shop" is not a workload\n\nhint: workloads are tpcb-like,'),
        (
            "drill --fault kill shop",
            "pgdyno drill is only for servers that pgdyno starts, so it takes no database",
        ),
        ("price shop", '"shop" is not a workload'),
        ("vacuum-plan --rounds 6", "--rounds is for --prove, which is not given"),
        ("vacuum-plan --prove --rounds 0", "0 is not in the range"),
        ("age --to nan", "--to nan: an age is a number"),
        ("age --to 2.15e9", "--to 2.15e9: an age is a number from 1 to 2,146,983,648"),
        ("age --to 1e9 -h nowhere", "works only on servers that pgdyno starts"),
        ("age --to 1e9 --standby on", "pgdyno age works without standbys"),
        ("age --to 1e9 --set wal_level=replica", "and wal_level is replica"),
        ("age --to 1e9 --multixact --set max_prepared_transactions=0", "the settings allow none"),
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


def test_spec_check_finds_all_settings_that_cannot_be(pgdyno: Pgdyno) -> None:
    settings = "{ shared_bufers = '1GB', work_mem = 'lots', port = 1, fsync = 'on' }"
    Path("spec.toml").write_text(
        f"[server]\nsettings = {settings}\n"
        "[[events]]\nat = '1s'\nsettings = { wal_sync_method = 'hope', work_mem = 'lots' }\n"
    )
    said = pgdyno("spec", "check", "spec.toml")
    assert (said.status, said.out) == (1, "")
    head, *lines = said.err.splitlines()
    assert head == snapshot("error: 4 settings cannot be used")
    assert [line.split(":")[0] for line in lines] == [
        "  port", "  shared_bufers", "  work_mem", "  wal_sync_method",
    ]  # fmt: skip
    assert lines[1].endswith("has no such setting (did you mean shared_buffers?)")


def test_spec_check_and_branch_find_what_a_branch_cannot_set(pgdyno: Pgdyno) -> None:
    Path("spec.toml").write_text(
        '[[branches]]\nname = "a"\n[[branches]]\nname = "b"\nsettings = { work_mem = "lots" }\n'
    )
    for words in (["spec", "check"], ["branch"]):
        said = pgdyno(*words, "spec.toml")
        assert (said.status, said.out, "work_mem" in said.err) == (1, "", True), said.err


def test_truths_are_still_taken_where_they_are_meant(pgdyno: Pgdyno) -> None:
    Path("spec.toml").write_text("[server]\nsettings = { fsync = false }\nchecksums = true\n")
    said = pgdyno("spec", "check", "spec.toml")
    assert (said.status, said.err) == (0, "")
    assert 'fsync = "off"' in said.out


def test_a_server_of_the_user_has_no_branches(pgdyno: Pgdyno) -> None:
    Path("two.toml").write_text('[[branches]]\nname = "a"\n[[branches]]\nname = "b"\n')
    said = pgdyno("branch", "two.toml", "-h", "nowhere")
    assert (said.status, said.err) == (
        1,
        snapshot(
            "error: two.toml: branches can only be used with server.kind = embedded: pgdyno stops the server and replaces its data directory, which it never does to a server that it did not start\n"
        ),
    )
