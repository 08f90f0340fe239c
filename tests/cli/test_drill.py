"""``pgdyno drill`` as a user meets it: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drill_runs
import jsonschema
import pytest
from inline_snapshot import snapshot
from printed import Said

from pgdyno.drill.model import Verified
from pgdyno.drill.trust import beyond_bound
from pgdyno.record.cut import LedgerCount, Proof
from pgdyno.results.drill import Drill
from pgdyno.server import Cluster, Installation

Pgdyno = Callable[..., Said]
SCHEMA = Path(__file__).parents[2] / "docs/reference/result-drill.schema.json"
# Long enough that something is acknowledged on a disk that stands still for half a second.
SMALL = ("-s", "1", "-c", "4", "--load", "1200ms", "-q")


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def what_stays(text: str) -> str:
    """The summary without the line about the machine, with every number as N, every time as N s and
    one space for several: what is the same for every run. Of the table of cuts only its
    beginning."""
    _, _, rest = text.partition("\n\n")
    plain = re.sub(r"\d[\d,.]*(e[+-]\d+)?", "N", rest)
    plain = re.sub(r" +", " ", re.sub(r"\bN ms\b", "N s", plain))
    return re.sub(r"(?m)^(cut|N N s).*\n", lambda row: f"{row[1]} …\n", plain)


def test_one_drill_as_text_and_as_json(pgdyno: Pgdyno) -> None:
    said = pgdyno("drill", "--fault", "kill", "--cuts", "1", "-o", "run.db", *SMALL)
    assert said.status == 0, said.err
    assert what_stays(said.out) == snapshot("""\
drill SIGKILL of all of the server's processes at once, PostgreSQL N once; seed N
verdict N of N cut lost anything
documented a commit is acknowledged once its WAL is on disk: none may be lost
settings synchronous_commit = on, wal_writer_delay = Nms, wal_writer_flush_after = NMB, fsync = on,
 full_page_writes = on, data_checksums = on, commit_delay = N wal_sync_method = fdatasync
outcomes N clean
recovery median N s, at most N s
proof of cut N: all N server processes are gone; the control file says "in production"

cut …
N N s …

passed start, future-lsn, ledger, cold-tables, sequence, unlogged, zero-sum, amcheck, readable, writable, shutdown,
 checksums
""")
    shown = pgdyno("show", "run.db", "--format", "json")
    result = json.loads(shown.out)
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    assert result["summary"]["lost_max"] == 0
    assert pgdyno("show", "run.db").out == said.out
    assert pgdyno("report", "run.db").status == 0
    assert "The fault and its outcome" in Path("run.html").read_text()
    repeated = pgdyno("show", "run.db", "--format", "spec")
    assert "scale = 1" in repeated.out


def test_a_sham_ends_with_status_4(pgdyno: Pgdyno) -> None:
    said = pgdyno("drill", "--fault", "kill", "--cuts", "1", "--sham", *SMALL, "--format", "json")
    assert said.status == 4
    assert said.err == snapshot("""\
error: the fault did not happen in 1 of 1 cuts, so nothing is known of them

hint: --sham was given
""")
    assert [cut["outcome"] for cut in json.loads(said.out)["cuts"]] == ["no-fault"]


@pytest.mark.long
def test_two_servers_are_compared(
    pgdyno: Pgdyno, installation_of: Callable[[int], Installation]
) -> None:
    bindirs = [f"--pg-bindir={installation_of(major).bindir}" for major in (18, 15)]
    more = ("--cuts", "1", "--fault", "immediate", "-o", "run.db", "--format", "json")
    said = pgdyno("drill", *bindirs, *SMALL, *more)
    assert said.status == 0, said.err
    result = json.loads(said.out)
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    assert result["server_version"].startswith("18")
    assert result["against"]["server_version"].startswith("15")
    assert {each["what"] for each in result["differences"]} == {
        "lost", "lost_ms", "recovery_s", "damaged",
    }  # fmt: skip
    assert [cut["seed"] for cut in result["cuts"]] == [
        cut["seed"] for cut in result["against"]["cuts"]
    ]
    assert Path("run-against.db").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--fault", "meteor"], 'there is no fault "meteor"'),
        (["--fault", "kill", "postgresql://localhost/x"], "only for servers that pgdyno starts"),
        (["--fault", "kill", "--variant", "wal"], 'the fault kill has no variant "wal"'),
        (["--fault", "kill", "--set", "synchronous_comit=off"], "synchronous_comit"),
        (["--fault", "kill", "--cuts", "0"], "0 is not in the range"),
        (["--fault", "disk-full", "--data-disk", "plain:/tmp"], "which pgdyno did not create"),
        (["--fault", "kill", *["--pg-bindir=/x"] * 3], "at most twice"),
        (["--fault", "kill", "--cut", "2"], "--cut is for cuts of a recorded load"),
        (["--fault", "power", "--cuts", "3", "--cut", "4"], "there is no cut 4 of 3"),
        (["--fault", "kill", "--sector", "512"], "--sector is for cuts of a recorded load"),
        (["--fault", "kill", "--minimise"], "--minimise is for cuts of a recorded load"),
        (["--fault", "kill", "--load", "0"], '"0" must be greater than 0'),
        (["--fault", "kill", "--budget", "0.1ms"], '"0.1ms" must be greater than 0'),
        (["--fault", "kill", "--acks", "acks"], "a drill keeps an ack ledger of its own"),
        (["--fault", "power", "--data-disk", "tmpfs:1GB"], "power cuts need disks that record"),
        ([], "missing option '--fault'"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(
    pgdyno: Pgdyno, arguments: list[str], error: str
) -> None:
    if "disk-full" in arguments and os.geteuid() != 0:
        pytest.skip("another message comes first for who is not root")
    said = pgdyno("drill", *arguments, "-q")
    assert said.status == 1
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert error in said.err
    assert said.err.count("error:") == 1
    assert not list(Path.cwd().glob("**/*.db"))


NOTHING = "nothing was started"
"""What a bad command line would do if it got as far as a server."""


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(NOTHING)

    monkeypatch.setattr(Cluster, "create", refuse)


@pytest.mark.usefixtures("no_server")
@pytest.mark.parametrize("command", ["drill", "price"])
def test_what_one_of_two_servers_lacks_is_said_before_either_starts(
    pgdyno: Pgdyno, installation_of: Callable[[int], Installation], command: str
) -> None:
    fifteen = f"--pg-bindir={installation_of(15).bindir}"
    eighteen = f"--pg-bindir={installation_of(18).bindir}"
    words = [command, "-q", *(["--fault", "kill"] if command == "drill" else [])]
    nowhere = pgdyno(*words, "--pg-bindir=/nowhere", fifteen)
    assert nowhere.err.startswith("error: /nowhere contains no postgres and no initdb\n")
    for bindirs in ([eighteen, fifteen], [fifteen, eighteen]):
        lacking = pgdyno(*words, *bindirs, "--set", "io_method=sync")
        assert lacking.err.startswith("error: io_method: PostgreSQL 15 has no such setting")
    Path("x-against.db").touch()
    there = pgdyno(*words, eighteen, fifteen, "-o", "x.db")
    assert there.err.startswith("error: x-against.db: a file with this name already exists\n")
    unwritable = pgdyno(*words, eighteen, "-o", "/proc/x.db")
    assert unwritable.err.startswith("error: cannot write the run file /proc/x.db: ")


@pytest.mark.usefixtures("no_server")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("begin; select 1; rollback;", "must come before a COMMIT, and this transaction has none"),
        ("\\startpipeline\nselect 1;\n\\endpipeline", "a pipeline does not allow that"),
        (
            "begin;\n\\if 1\ncommit;\n\\else\nrollback;\n\\endif",
            "which not every run of the script reaches",
        ),
    ],
)
def test_a_script_that_cannot_leave_witnesses_is_refused_before_anything_starts(
    pgdyno: Pgdyno, text: str, error: str
) -> None:
    Path("x.sql").write_text(text)
    for command in (["drill", "--fault", "kill"], ["price"]):
        said = pgdyno(*command, "-f", "x.sql", "-q")
        assert said.status == 1
        assert re.match(r"error: x\.sql:\d+:\d+: witness ", said.err)
        assert error in said.err
        assert "in a drill every transaction writes its witness" in said.err


def test_where_nothing_was_acknowledged_nothing_is_known(pgdyno: Pgdyno) -> None:
    """A load that only fails must not pass for one that lost nothing."""
    Path("fails.sql").write_text("select 1 / 0;")
    said = pgdyno("drill", "--fault", "kill", "--cuts", "1", "-f", "fails.sql", *SMALL)
    assert said.status == 4
    assert "nothing was acknowledged before the fault, so nothing could be lost" in said.out
    assert re.sub(r"client \d+", "client N", re.sub(r"[\d,]+ ×", "N ×", said.err)) == snapshot("""\
ERROR 22012: division by zero
  at client N, fails.sql line 1: select 1 / 0
error: no transaction was acknowledged before a fault, so nothing could be lost: N × 22012 division by zero

hint: use a longer --load, or another script
""")


def test_a_script_that_does_not_wait_for_its_commits_is_held_to_that(pgdyno: Pgdyno) -> None:
    Path("async.sql").write_text(
        "begin; set local synchronous_commit = off;"
        " insert into pgbench_history (tid) values (1); commit;"
    )
    more = ("--cuts", "1", "--set", "wal_writer_delay=10s", "--format", "json")
    said = pgdyno("drill", "--fault", "kill", "-f", "async.sql", *SMALL, *more)
    assert said.status == 0, said.err
    result = json.loads(said.out)
    assert result["summary"]["bound_ms"] == 30_000
    assert result["bound"].startswith("a script sets synchronous_commit itself; ")


def test_a_full_disk_wants_root(pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.drill.faults.disk_full.os.geteuid", lambda: 1000)
    said = pgdyno("drill", "--fault", "disk-full", "-q")
    assert (said.status, said.code) == (1, "not-root")


def a_result(bound_ms: float | None, **ledger: Any) -> Drill:
    verified = Verified("lost", LedgerCount(**ledger), 0.2, (), "ledger")
    cut = verified.of(drill_runs.cut_with(Proof(happened=True, sentence="gone")))
    return drill_runs.drill_with((cut,), bound_ms, bound="600 ms at most")


def test_more_than_documented_ends_with_status_3() -> None:
    problem = beyond_bound(a_result(600.0, acked=100, lost=7, lost_ms=812.0))
    assert problem is not None
    assert problem.exit_status == 3
    assert problem.message == snapshot(
        "worse than documented in 1 of 1 cuts; cut 1: lost 7 of 100 acknowledged commits, acknowledged up to 812 ms before the fault, up again after 200 ms"
    )
    assert problem.hint == snapshot("documented: 600 ms at most")
    assert beyond_bound(a_result(600.0, acked=100, lost=7, lost_ms=112.0)) is None
    assert beyond_bound(a_result(None, acked=100, lost=7, lost_ms=99_000.0)) is None
