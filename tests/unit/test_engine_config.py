"""What the engine refuses before it connects, and what it says of itself."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import pgdyno._engine as engine
from pgdyno._engine import EngineError, Load, ScriptError

STUB = Path(__file__).parents[2] / "src" / "pgdyno" / "_engine.pyi"


def config(**changes: Any) -> dict[str, Any]:
    load: dict[str, Any] = {
        "target": {"hosts": [{"host": "/nowhere", "port": 1}], "user": "u", "database": "d"},
        "groups": [
            {"name": "g", "clients": 1, "scripts": [{"name": "s", "text": "select 1;"}]},
        ],
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner: Any = load
        for key in parents:
            inner = inner[int(key)] if key.isdigit() else inner[key]
        inner[last] = value
    return load


def refusal(load: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        Load(json.dumps(load))
    return caught.value


def test_the_least_that_is_needed_is_enough() -> None:
    assert Load(json.dumps(config())).state() == "new"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 0}, "threads is 0, and must be between 1 and"),
        ({"max_tries": -1}, "invalid value"),
        ({"log": {"prefix": "x", "sampling_rate": 0.0}}, "sampling_rate must be above 0"),
        ({"log": {"prefix": "x", "aggregate_s": 0}}, "aggregate_s must be above 0"),
        ({"backoff_ms_min": 100, "backoff_ms_max": 50}, "backoff_ms_max is 50"),
        ({"protocol": "morse"}, "unknown variant `morse`"),
        ({"thread": 1}, "unknown field `thread`"),
        ({"groups": []}, "no client group"),
        ({"groups__0__clients": 1_000_000}, "clients is 1000000"),
        ({"groups__0__clients": -1}, "expected u32"),
        ({"groups__0__pool": {"max": 0}}, "pool.max is 0"),
        ({"groups__0__pool": {"max": 1, "max_wait_ms": 0}}, "pool.max_wait_ms is 0"),
        ({"groups__0__scripts": []}, 'client group "g" has no script with a weight above 0'),
        ({"groups__0__scripts__0__weight": 0}, "no script with a weight above 0"),
        (
            {"groups__0__schedule": [{"at_ms": 5, "clients": 1}, {"at_ms": 4, "clients": 1}]},
            "not in order of at_ms",
        ),
        (
            {"target__sslmode": "sometimes"},
            "unknown variant `sometimes`, expected one of",
        ),
        ({"target__hosts": []}, "target.hosts names no server"),
        (
            {"target__sslrootcert": "system"},
            'sslmode "prefer" is too weak for sslrootcert',
        ),
        ({"target__sslnegotiation": "direct"}, "too weak for sslnegotiation"),
        (
            {
                "target__ssl_min_protocol_version": "TLSv1.3",
                "target__ssl_max_protocol_version": "TLSv1.2",
            },
            "ssl_min_protocol_version is above",
        ),
        ({"target__min_protocol_version": "3.2"}, "min_protocol_version is above"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    error = refusal(config(**changes))
    assert error.code == "config-invalid"
    assert words in error.message
    assert not error.message.endswith(".")


def test_two_groups_of_one_name_are_refused() -> None:
    load = config()
    load["groups"] *= 2
    assert refusal(load).message == 'two client groups are called "g"'


def test_a_mistake_in_a_script_has_its_place() -> None:
    script = {"name": "s", "text": "select 1;\n\\set x 1 +* 2\n", "file": "mine.sql"}
    error = refusal(config(groups__0__scripts=[script]))
    assert isinstance(error, ScriptError)
    assert (error.file, error.line, error.column) == ("mine.sql", 2, 11)
    assert error.message.startswith("mine.sql:2:11: ")
    assert str(error) == error.message
    with pytest.raises(ScriptError) as caught:
        engine.check_script(script["text"], "mine.sql")
    assert caught.value.line == 2


def test_pipelines_are_refused_in_the_simple_protocol() -> None:
    text = "select 0;\n  \\startpipeline\nselect 1;\n\\endpipeline\n"
    script = {"name": "s", "text": text, "file": "p.sql"}
    for protocol in ("extended", "prepared"):
        assert Load(json.dumps(config(groups__0__scripts=[script], protocol=protocol)))
    error = refusal(config(groups__0__scripts=[script], protocol="simple"))
    assert isinstance(error, ScriptError)
    assert error.message == "p.sql:2:3: a pipeline cannot be used in the simple protocol"
    assert error.hint == "use the extended or the prepared protocol"


def test_a_script_tells_what_it_sends_and_wants() -> None:
    text = "\\set a random(1, :scale)\nselect :a, :b, :r_c;\nselect 1 as c \\gset r_\n"
    facts = engine.check_script(text, "f")
    assert facts["statements"] == ["select :a, :b, :r_c", "select 1 as c"]
    assert facts["variables_used"] == ["b"]


def test_the_built_in_scripts_are_pgbenchs() -> None:
    scripts = engine.builtin_scripts()
    assert set(scripts) == {"tpcb-like", "simple-update", "select-only"}
    counts = {n: len(engine.check_script(t, n)["statements"]) for n, t in scripts.items()}
    assert counts == {"tpcb-like": 7, "simple-update": 5, "select-only": 1}


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(EngineError) as caught:
        Load("{")
    assert caught.value.code == "config-invalid"


def test_a_server_that_is_not_there_is_told_with_its_place() -> None:
    with pytest.raises(EngineError) as caught:
        Load(json.dumps(config())).start()
    assert caught.value.code == "connection-failed"
    wanted = "cannot connect to the socket /nowhere/.s.PGSQL.1: No such file or directory"
    assert caught.value.message == wanted


def test_build_facts() -> None:
    info = engine.build_info()
    assert info["profile"] in ("release", "debug")
    assert info["target"].count("-") >= 2
    assert info["version"].count(".") == 2


def test_the_stub_says_what_is_there() -> None:
    tree = ast.parse(STUB.read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            if any(ast.unparse(d) == "type_check_only" for d in node.decorator_list):
                continue
            there = getattr(engine, node.name)
            methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            public = {n for n in vars(there) if not n.startswith("_")}
            if not issubclass(there, Exception):
                assert {m for m in methods if not m.startswith("_")} == public
        elif isinstance(node, ast.FunctionDef):
            assert callable(getattr(engine, node.name))
    declared = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    assert {n for n in vars(engine) if not n.startswith("_")} <= declared
