"""Rows over which recursive queries go: none leads back to itself."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from pgdyno._engine import MadeRows, check_script
from pgdyno.clone._scripts import Part, script_of
from pgdyno.clone.capture_file import (
    Capture,
    Column,
    Parameter,
    Reference,
    Source,
    Statement,
    Step,
    Table,
    Transaction,
    Use,
)
from pgdyno.clone.keys import Keys
from pgdyno.clone.schema import rows_sql

_ID, _PARENT = Column("id", "bigint", "int8", not_null=True), Column("parent_id", "bigint", "int8")


def _tree(rows: int, **id_: float) -> Table:
    columns = (Column("id", "bigint", "int8", not_null=True, **id_), _PARENT)
    to_itself = (Reference(("parent_id",), "public.tree", ("id",)),)
    keys, path = (("id",),), ("id", "parent_id")
    return Table("public", "tree", rows, 1, columns, keys, True, references=to_itself, path=path)


def _edges(nodes: int, rows: int) -> tuple[Table, Table]:
    names = ("node", "previous")
    columns = tuple(Column(each, "bigint", "int8", not_null=True) for each in names)
    to_nodes = tuple(Reference((each,), "public.nodes", ("id",)) for each in names)
    of_nodes = Table("public", "nodes", nodes, 1, (_ID,), (("id",),), True)
    edges = Table("public", "edges", rows, 1, columns, (names,), True, to_nodes, path=names)
    return of_nodes, edges


def _made(table: Table, tables: tuple[Table, ...]) -> list[list[str]]:
    (sql,) = rows_sql(table, Keys(tables))
    made = MadeRows(sql, "setup.sql", [], 0)
    text = b""
    while piece := made.piece(1 << 20):
        text += piece
    return [line.split("\t") for line in text.decode().splitlines()]


@pytest.mark.parametrize("correlation", [1.0, 0.0])
def test_rows_of_a_tree_are_below_earlier_ones(correlation: float) -> None:
    tree = _tree(500, correlation=correlation)
    rows = _made(tree, (tree,))
    assert len(rows) == 500
    assert [id_ for id_, parent in rows if parent == "\\N"] == ["1"]
    assert all(int(parent) < int(id_) for id_, parent in rows if parent != "\\N")


@pytest.mark.parametrize(("nodes", "rows"), [(2, 1), (78, 72), (78, 78), (79, 2000), (10, 40)])
def test_each_edge_leads_to_an_earlier_node(nodes: int, rows: int) -> None:
    tables = _edges(nodes, rows)
    made = [(int(node), int(previous)) for node, previous in _made(tables[1], tables)]
    assert len({*made}) == rows
    assert all(1 <= previous < node <= nodes for node, previous in made)


def _script(text: str, *parameters: Parameter, tables: tuple[Table, ...]) -> str:
    statement = Statement(text, parameters, 10.0, 1.0, 0.1, 0.0)
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, tables, (statement,), (transaction,), ()
    )
    script = script_of(capture, [Part(transaction)], Keys(tables))
    check_script(script, "x.sql")
    return script


def _of(use: Use, table: str, column: str) -> Parameter:
    return Parameter("bigint", use, f"public.{table}", column)


@pytest.mark.parametrize("names", [("node", "previous"), ("previous", "node")])
def test_new_edges_lead_to_earlier_nodes(names: tuple[str, str]) -> None:
    both = [_of("inserted", "edges", each) for each in names]
    text = f"insert into edges ({', '.join(names)}) values ($1, $2)"
    script = _script(text, *both, tables=_edges(78, 72))
    lines = [each for each in script.splitlines() if each.startswith("\\set")]
    (node,) = (each for each in lines if each.endswith("random(1, 78)"))
    name = node.split()[1]
    assert f"\\set earlier least(78, :{name} - 1)" in lines
    values = {name: f":{name}"}
    (previous,) = (each.split()[1] for each in lines if "least(1, :earlier)" in each)
    expected = (f":{name}", f":{previous}")
    assert f"values ({', '.join(expected if names[0] == 'node' else expected[::-1])});" in script
    assert values


def test_a_row_of_a_tree_moves_below_an_earlier_one() -> None:
    tree = _tree(500)
    text = "update tree set parent_id = $1 where id = $2"
    script = _script(
        text, _of("set", "tree", "parent_id"), _of("compared", "tree", "id"), tables=(tree,)
    )
    assert script == snapshot("""\
\\set tree_id_key random(1, 500)
\\set tree_id_key greatest(2, :tree_id_key)
\\set earlier least(500, :tree_id_key - 1)
\\set tree_id_key_2 random(least(1, :earlier), :earlier)
update tree set parent_id = :tree_id_key_2 where id = :tree_id_key;
""")
