"""Bad input: one message, a hint where there is one, and the exit status, in full."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from inline_snapshot import snapshot

Pgdyno = Callable[..., "object"]
UNFINISHED = Path(__file__).parents[2] / "docs/reference/result-unfinished.schema.json"


def test_unknown_command(pgdyno: Pgdyno) -> None:
    said = pgdyno("rnu")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: no such command 'rnu'

hint: did you mean run? For a database of that name: pgdyno run -d rnu
""",
        )
    )


@pytest.mark.parametrize("group", [[], ["server"]], ids=["pgdyno", "server"])
def test_no_command_prints_the_help(pgdyno: Pgdyno, group: list[str]) -> None:
    said = pgdyno(*group)
    asked = pgdyno(*group, "--help")
    assert (said.status, said.out, said.err) == (1, "", asked.out)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["bench"], "did you mean branch? For a database of that name: pgdyno run -d bench"),
        (["-c", "8", "qq"], "pgbench's options follow run: pgdyno run -c 8 -T 60 DATABASE"),
        (["qqqq"], "pgbench's options follow run: pgdyno run -c 8 -T 60 DATABASE"),
    ],
    ids=["near", "option", "other"],
)
def test_a_first_word_that_is_no_command(pgdyno: Pgdyno, words: list[str], hint: str) -> None:
    said = pgdyno(*words)
    assert (said.status, said.out) == (1, "")
    assert f"hint: {hint}" in said.err


def test_unknown_option(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--clinets", "3")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: no such option '--clinets'. (Did you mean one of: '--client', '--clients', '--connect'?)

hint: see pgdyno run --help
""",
        )
    )


def test_unknown_workload(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "tpcb")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: "tpcb" is not a workload; tpcb-like is

hint: workloads are tpcb-like, simple-update, select-only, mixed, business, entity-resolution, ingest, tpcc-like, tpcc-functions; use -d for a database of that name: -d tpcb
""",
        )
    )


def test_clients_of_zero(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-c", "0")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-c' / '--clients' / '--client': 0 is not in the range x>=1

hint: see pgdyno run --help
""",
        )
    )


def test_a_number_with_rubbish(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-c", "8x")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-c' / '--clients' / '--client': '8x' is not a valid integer range

hint: see pgdyno run --help
""",
        )
    )


def test_a_time_with_rubbish(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-T", "10 parsecs")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-T' / '--time': "10 parsecs": "parsecs" is not a unit of duration (us, ms, s, min, h, d)

hint: see pgdyno run --help
""",
        )
    )


def test_a_missing_script(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-f", "absent.sql")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", "error: the script absent.sql cannot be read: No such file or directory\n")
    )


def test_a_bad_weight(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-f", "x.sql@many")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", 'error: -f x.sql@many: the weight "many" is not a whole number, 0 or more\n')
    )


def test_a_script_with_a_syntax_error(pgdyno: Pgdyno) -> None:
    Path("bad.sql").write_text("\\set aid random(1, )\nselect :aid;\n")
    said = pgdyno("run", "-f", "bad.sql")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", 'error: bad.sql:1:20: found ")" where a value should be\n')
    )


def test_an_assignment_that_is_none(pgdyno: Pgdyno) -> None:
    said = pgdyno("compare", "--set", "synchronous_commit")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: --set "synchronous_commit" is not NAME=VALUE

hint: for example --set synchronous_commit=off
""",
        )
    )


def test_nothing_to_compare(pgdyno: Pgdyno) -> None:
    said = pgdyno("compare", "tpcb-like")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: nothing to compare: no change is given

hint: --set NAME=VALUE, --pool-max N, --vary KEY=VALUE, --sql SQL with --undo-sql, --profile FILE or --against N
""",
        )
    )


def test_a_key_that_cannot_vary(pgdyno: Pgdyno) -> None:
    said = pgdyno("compare", "--vary", "server.kind=existing")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: server.kind: not a key that can differ between slices

hint: keys that can differ: load.*, workload.*, clients.GROUP.*, front.*, pooler.*, workload.ingest, workload.batch, standby.*, server.checksums, kernel.*, disk.wal, disk.data, workload.indexes.TABLE, workload.init.partitions, workload.table_options.TABLE.NAME, server.version, server.bindir; for example load.protocol=simple
""",
        )
    )


def test_two_workloads(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "mixed", "tpcb-like")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            'error: "tpcb-like": only one workload or spec and one database or connection string can be given\n',
        )
    )


def test_a_missing_spec(pgdyno: Pgdyno) -> None:
    said = pgdyno("investigate", "absent.toml")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: absent.toml: No such file or directory

hint: pgdyno demo --copy DIR copies example specs
""",
        )
    )


def test_a_missing_run_file(pgdyno: Pgdyno) -> None:
    said = pgdyno("show", "absent.db")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: absent.db does not exist

hint: give a file that pgdyno run, compare, investigate or drill wrote with -o
""",
        )
    )


def test_a_foreign_file(pgdyno: Pgdyno) -> None:
    Path("notes.txt").write_text("not a database, but long enough to look at\n" * 10)
    said = pgdyno("report", "notes.txt")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: notes.txt is not a run file of pgdyno

hint: give a file that pgdyno run, compare, investigate or drill wrote with -o
""",
        )
    )


def test_an_output_that_exists(pgdyno: Pgdyno) -> None:
    Path("run.db").write_text("precious")
    said = pgdyno("run", "-o", "run.db")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: run.db: a file with this name already exists

hint: run files are never overwritten; choose another name or move it
""",
        )
    )
    assert Path("run.db").read_text() == "precious"


def test_a_server_that_is_not_there(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "postgresql://nobody@127.0.0.1:1/postgres", "-T", "1", "-q")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: no PostgreSQL server answers at 127.0.0.1:1

hint: is it running there? Without a server or database name, pgdyno starts its own server
""",
        )
    )


def test_what_the_engine_cannot_do_is_refused(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "postgresql://127.0.0.1/postgres?sslcrldir=/crl", "-q")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: sslcrldir=/crl: the load engine does not support this

hint: put the lists into one file and name it with sslcrl
""",
        )
    )


def test_folder_without_a_server(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--pg-bindir", "/usr/share", "-q")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: /usr/share contains no postgres and no initdb

hint: give the directory of the server's binaries, such as /usr/lib/postgresql/17/bin
""",
        )
    )


def test_more_clients_than_open_files(pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
    said = pgdyno("run", "-c", "10000")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: the clients need 10,100 open files, and this process may have 4,096

hint: run ulimit -Hn 10100 as root, set LimitNOFILE= in a service's unit, or use fewer clients
""",
        )
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "--clinets", "3", "--format", "json"), "usage"),
        (("compare", "--format=json", "-c", "4"), "nothing-to-compare"),
        (("story", "missing.toml", "--format", "json"), "spec-unreadable"),
        (("show", "missing.db", "--format", "json"), "run-file-missing"),
        (("rnu", "--format", "json"), "usage"),
    ],
)
def test_who_asks_for_json_gets_the_error_as_json(
    pgdyno: Pgdyno, words: tuple[str, ...], code: str
) -> None:
    said = pgdyno(*words)
    told = json.loads(said.out)
    jsonschema.validate(told, json.loads(UNFINISHED.read_text()))
    error = told["error"]
    hint = f"\nhint: {error['hint']}\n" if error["hint"] else ""
    assert said.err == f"error: {error['message']}\n{hint}"
    assert (said.status, error["exit_status"], error["code"]) == (1, 1, code)
    assert told["run_file"] is told["verdict"] is None
