"""Whatever names and values a role chose, SQL that pgdyno prints has each as one token."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from check_runs import found, judged
from diagnose_runs import CPU, Load, diagnosed
from hostile_names import NAMES, as_the_server_quotes, tokens, unknown_columns, with_names
from hypothesis import given as examples
from hypothesis import strategies as st
from msgspec.structs import replace
from test_check_rules import FAULTS
from test_diagnose_upkeep import DISK, slot
from test_diagnose_vacuum import OFTEN, dying
from test_govern_deciding import decider, reading
from test_vacuumplan_advice import SERVER, TABLE
from upkeep_runs import ages, churn, table_facts, workers

import pgdyno
from benches.sources import syntax_tree
from pgdyno.escaping import shell_line, visible, visible_line
from pgdyno.govern._reading import HorizonHolder
from pgdyno.remedy import Circumstances, assess
from pgdyno.spec import Change
from pgdyno.spec.sql_text import (
    columns_of,
    columns_text,
    folded,
    literal,
    on_one_line,
    quoted,
    relation,
)
from pgdyno.vacuumplan._advising import plan_table

SAID = re.compile(r"(?:ALTER|COMMIT|ROLLBACK|SELECT|CREATE|DROP|create an index of) .*")
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@examples(ANY)
def test_a_name_and_a_literal_are_one_token_on_one_line(text: str) -> None:
    for sql, kind in ((quoted(text), "name"), (literal(text), "text")):
        assert tokens(sql) == [(kind, text)]
        assert visible_line(sql) == sql
    assert folded(quoted(text)) == text
    assert columns_of(columns_text([text, "b", text])) == (text, "b", text)


@examples(ANY, ANY)
def test_what_the_server_quoted_is_put_on_one_line(schema: str, name: str) -> None:
    sql = on_one_line(f"DROP INDEX {as_the_server_quotes(schema, name)}, 'it''s'")
    assert tokens(sql)[2:5] == [("name", schema), ("other", "."), ("name", name)]
    assert tokens(sql)[6] == ("text", "it's")
    assert visible_line(sql) == sql


@examples(st.lists(ANY))
def test_words_of_a_shell_are_on_one_line(words: list[str]) -> None:
    line = shell_line(["pgdyno", *words])
    assert visible_line(line) == line


def check_sql(sql: str, name: str) -> None:
    """SQL that has ``name``: as whole tokens, and nothing of it elsewhere."""
    assert visible_line(sql) == sql
    listed = tokens(sql)
    assert name in [text for _, text in listed], sql
    others = [text for _, text in listed if text != name]
    assert not {";", '"', "'", "DROP TABLE", "SUPERUSER"} & set(others), sql
    assert len(others) < 30


def test_columns_of_looks_are_known() -> None:
    rows = [{**given, "settings": []} for _, _, given, _ in FAULTS]
    assert set(unknown_columns(rows)) == set()


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_all_rules(name: str) -> None:
    with_name = set()
    for rule, _, given, _ in FAULTS:
        plain = found(judged(**given))[rule]
        hostile = found(judged(**with_names(given, name)))[rule]
        assert len(hostile.commands) == len(plain.commands)
        for command, as_usual in zip(hostile.commands, plain.commands, strict=True):
            if command != as_usual:
                check_sql(command, name)
                with_name.add(rule)
    assert with_name >= {"lost-slots", "idle-slots", "commits-not-durable", "duplicate-indexes",
                         "unread-indexes", "invalid-indexes", "no-autovacuum",
                         "autovacuum-behind", "no-room-for-hot"}  # fmt: skip


def of_holder(kind: str, name: str) -> Any:
    holder = {"xmin_holder": kind, "xmin_holder_name": name, "xmin_holder_about": "x"}
    return churn(rows={"metric_age": ages(holder)})


def of_table(name: str, **given: Any) -> Any:
    settings = given.pop("settings", {})
    facts = table_facts(relation=f"s.{name}", **given)
    waits = {"wait_sample": workers(1.9, 0.1)} if settings is OFTEN else {}
    load = dying(settings=settings, rows={"metric_autovacuum": facts, **waits})
    load.tables = {f"s.{name}": load.tables["public.orders"]}
    return load


def of_scan(name: str) -> Any:
    counts = {"seq_scan": 1000, "seq_tup_read": 100_000_000, "n_live_tup": 100_000}
    return Load(sessions={CPU: 1.9}, busy=0.95, server=0.9, tables={f"s.{name}": counts})


def prepared(name: str) -> Any:
    row = {"count": 1, "gid": name, "held_ms": 900_000.0, "xid_age": 40}
    return churn(rows={"metric_prepared": lambda edge: [row]})


LOADS = {
    "prepared-transactions": prepared,
    "xmin-pinned": lambda name: of_holder("prepared", name),
    "xmin-pinned of a slot": lambda name: of_holder("slot", name),
    "slot-holds-wal": lambda name: churn(rows={"metric_slot": slot(slot_name=name)}, space=DISK),
    "autovacuum-slow": lambda name: of_table(name, settings=OFTEN),
    "autovacuum-off": lambda name: of_table(name, options="autovacuum_enabled=false"),
    "autovacuum-threshold": lambda name: of_table(
        name, reltuples=10_000, settings={"autovacuum_vacuum_scale_factor": "20"}
    ),
    "missing-index": of_scan,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("signature", LOADS)
def test_advice_of_signatures(tmp_path: Path, signature: str, name: str) -> None:
    """Of a run file, whose text is read with control characters escaped."""
    finding = diagnosed(tmp_path, LOADS[signature](name))[signature.partition(" ")[0]]
    name = visible(name)
    assert finding.status == "found"
    sql = SAID.search(finding.advice)
    assert sql is not None
    assert name in [text for _, text in tokens(sql[0])], finding.advice
    assert visible_line(finding.advice) == finding.advice
    assert quoted(name) in finding.advice or literal(name) in finding.advice


@pytest.mark.parametrize("name", NAMES)
def test_lines_to_apply_and_to_undo(name: str) -> None:
    change = Change(
        settings={"application_name": name},
        table_options={f"{name}.{name}": {"fillfactor": "70"}},
        indexes={f"public.{name}": columns_text([name, "id"])},
    )
    assessed = assess(change, Circumstances())
    for line in (*assessed.lines_to_apply(), *assessed.lines_to_undo()):
        assert visible_line(line) == line
        if not line.startswith(("SELECT", "--")) and "RESET app" not in line:
            assert name in "".join(text for _, text in tokens(line))
            assert [text for _, text in tokens(line)].count(";") == 1, line


@pytest.mark.parametrize("name", NAMES)
def test_what_a_governor_and_a_plan_say(name: str) -> None:
    holders = (HorizonHolder("slot", name, 1900, "not in use"),)
    (pin,) = decider().decide(reading(0, 2100, holders=holders)).pins
    assert ("text", name) in tokens(pin.advice.partition(": ")[2])
    table = replace(
        TABLE, relation=as_the_server_quotes("s", name), updated=100_000, deleted=20_000
    )
    statement = plan_table(SERVER, table, 0).statement
    assert statement is not None
    assert visible_line(statement) == statement
    assert ("name", name) in tokens(statement)


def test_no_sql_puts_quotes_around_a_value_by_itself() -> None:
    """A value between quotes in an f-string is a literal only if nothing in it ends it."""
    broken = [
        f"{path}:{node.lineno}"
        for path in Path(pgdyno.__file__).parent.rglob("*.py")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.JoinedStr) and _quotes_by_itself(node.values)
    ]
    assert broken == []


def _quotes_by_itself(parts: Sequence[ast.expr]) -> bool:
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
    sql = re.search(r"\b(?:ALTER|CREATE|DROP|COMMIT|ROLLBACK|SELECT|GRANT|VACUUM|REINDEX) ", text)
    return sql is not None and re.search(r"['\"]\{\}", text) is not None


def test_relations_have_two_names() -> None:
    assert relation("public.Orders") == 'public."Orders"'
