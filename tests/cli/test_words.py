"""Positional words, PG* variables and initialisation, as far as no server is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pgdyno.cli.connection import unused_server_note
from pgdyno.cli.positional import Positional, parse_positional
from pgdyno.errors import UsageError
from pgdyno.spec import Spec

Pgdyno = Callable[..., "object"]

_WORKLOADS = "workloads are tpcb-like, simple-update, select-only, mixed, business, entity-resolution, ingest"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("bench",), Positional(database="bench")),
        (("select-only", "bench"), Positional(builtin="select-only", database="bench")),
        (("my db", "mixed"), Positional(builtin="mixed", database="my db")),
        (("a.toml", "bench"), Positional(spec_path=Path("a.toml"), database="bench")),
        (("service=x",), Positional(conninfo="service=x")),
        (("tpch",), Positional(database="tpch")),
    ],
)
def test_a_bare_word_is_a_database(words: tuple[str, ...], asked: Positional) -> None:
    assert parse_positional(words) == asked


_ELSE = {
    "": "an empty argument is neither a workload nor a database",
    "  ": "an empty argument is neither a workload nor a database",
    "tpcb_like": '"tpcb_like" is not a workload; tpcb-like is',
    "tpcc": '"tpcc" is not a workload; tpcc-like is',
    "select": '"select" is not a workload; select-only is',
    "localhost": '"localhost" looks like a host',
    "10.0.0.1": '"10.0.0.1" looks like a host',
    "db1:5432": '"db1:5432" looks like a host',
    "/var/run/postgresql": '"/var/run/postgresql" looks like a host',
    "own.sql": '"own.sql" looks like a script',
}


@pytest.mark.parametrize(("word", "message"), _ELSE.items())
def test_what_looks_like_something_else_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_positional((word,))
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize("words", [("a", "b"), ("a", "dbname=b"), ("mixed", "select-only")])
def test_no_two_of_a_kind(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f'^"{words[1]}": only one workload or spec and one'):
        parse_positional(words)


_REFUSED = {
    ("bench", "-d", "shop"): "two databases are given: bench and, with -d, shop",
    ("-d", ""): "-d is empty",
    ("-h", "", "-d", "shop"): "-h is empty",
    ("-i",): "-i requires a named server",
    ("-W",): "-W requires a named server",
    ("-i", "shop", "-I", "dtx"): '-I: "x" is not an initialization step; steps'
    " are d (drop pgbench's four tables), t (create them), g (fill them with rows made by pgdyno), G"
    " (fill them with rows made by the server), v (vacuum and analyze them), p (add primary keys), f"
    " (add foreign keys)",
    ("-i", "shop", "--partition-method", "hash"): "--partition-method can"
    " only be used with --partitions above 0",
    ("-i", "shop", "-n", "-v"): "-n and -v exclude each other",
}


@pytest.mark.parametrize(("arguments", "message"), _REFUSED.items())
def test_what_contradicts_itself_is_refused(
    pgdyno: Pgdyno, arguments: tuple[str, ...], message: str
) -> None:
    said = pgdyno("run", *arguments)
    assert (said.status, said.out) == (1, "")
    assert said.err.splitlines()[0] == f"error: {message}"


def test_options_of_an_initialisation_are_keys_of_the_spec(
    pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[Spec] = []
    monkeypatch.setattr(
        "pgdyno.cli.session.initialise_only", lambda spec, _load, _progress: specs.append(spec)
    )
    words = "-i -s 3 -I dtGp -F 70 --partitions 2 --partition-method hash --foreign-keys -n shop"
    assert pgdyno("run", *words.split()).status == 0
    (spec,) = specs
    assert spec.server.conninfo == "dbname=shop"
    assert (spec.workload.initialize, spec.workload.vacuum) == (True, "none")
    assert spec.workload.scale_given
    assert spec.workload.init.all_steps == "dtGpf"
    assert spec.workload.init.in_words() == snapshot(
        "fillfactor 70, 2 hash partitions, foreign keys"
    )


@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({}, None),
        ({"PGUSER": "me", "PGPASSWORD": "x"}, None),
        ({"PGHOST": "db 1"}, "PGHOST names a server, which is not used: this run starts its own; to"
         " load the named server, add -h 'db 1'"),
        ({"PGHOST": "db1", "PGDATABASE": "shop"}, "PGDATABASE and PGHOST name a server, which is"
         " not used: this run starts its own; to load the named server, add -d shop"),
        ({"PGSERVICE": "prod"}, "PGSERVICE names a server, which is not used: this run starts"
         " its own; to load the named server, add -d service=prod"),
    ],
)  # fmt: skip
def test_a_server_that_only_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], note: str | None
) -> None:
    for name in ("SERVICE", "DATABASE", "HOST", "HOSTADDR", "PORT"):
        monkeypatch.delenv(f"PG{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert unused_server_note() == note


@pytest.mark.parametrize("words", [("-c", "8", "shop"), ("orders",), ("sales", "-i")])
def test_a_forgotten_run_is_suggested(pgdyno: Pgdyno, words: tuple[str, ...]) -> None:
    said = pgdyno(*words)
    assert said.status == 1
    assert "pgdyno run -c 8 -T 60 DATABASE" in said.err
