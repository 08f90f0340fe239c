"""Captures with other names: none of the old ones is left, and each is the same everywhere."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.capture._renaming import Names, _plpgsql_words, _without, with_names
from pgdyno.clone.capture_file import (
    Application,
    Capture,
    Column,
    Function,
    Index,
    Parameter,
    Reference,
    Scans,
    Source,
    Statement,
    Step,
    Table,
    Transaction,
    View,
)
from pgdyno.clone.keys import Keys
from pgdyno.spec.sql_text import quoted

WORDS = frozenset(
    [
        "select",
        "from",
        "where",
        "and",
        "as",
        "insert",
        "into",
        "values",
        "returning",
        "update",
        "set",
        "on",
        "conflict",
        "do",
        "using",
        "btree",
        "count",
        "sum",
        "date",
        "lower",
        "join",
        "order",
        "by",
        "group",
        "limit",
        "is",
        "not",
        "null",
        "integer",
        "bigint",
        "text",
        "with",
    ]
)


def capture(*tables: Table, texts: tuple[str, ...] = (), gaps: tuple[str, ...] = ()) -> Capture:
    parameter = Parameter("bigint", "compared", tables[0].full_name, tables[0].columns[0].name)
    return Capture(
        format="pgdyno capture",
        version=1,
        made_by="pgdyno 0",
        source=Source(16, 60.0, 110.0, 8, 6.0),
        tables=tables,
        statements=tuple(Statement(each, (parameter,), 1.0, 1.0, 0.1, 0.0) for each in texts),
        transactions=tuple(Transaction(1.0, (Step(each),)) for each in range(len(texts))),
        gaps=gaps,
        applications=(Application(1, 1.0, (1.0,) * len(texts)),),
    )


def number(name: str) -> Column:
    return Column(name, "bigint", "int8")


ORDERS = Table(
    *("Shop", "Orders", 100, 1, (number("id"), number("customer_id"), number("date"))),
    keys=(("id",),),
    has_primary=True,
    indexes=(Index("USING btree (customer_id, lower(date)) WHERE customer_id IS NOT NULL"),),
)
CUSTOMERS = Table(
    *("Shop", "customers", 100, 1, (number("id"), number("Größe"), number("orders"))),
    keys=(("id",),),
    has_primary=True,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'select o.customer_id, count(*) as number from "Shop"."Orders" o where o.date = $1',
            "select a1.c1, count(*) as a2 from s1.t1 a1 where a1.date = $1",
        ),
        (
            'INSERT INTO Customers AS c ("Größe", ORDERS) VALUES ($1, $22) RETURNING id',
            "INSERT INTO t2 AS a1 (c2, c3) VALUES ($1, $22) RETURNING id",
        ),
        ('select"Orders".id from "Orders"', "select t1.id from t1"),
        (
            "select orders.größe, 1e5, e'customers', u&'xxx' from x$1",
            "select c3.a1, 1e5, e't2', u&'xxx' from a2",
        ),
        ('select u&"\\0053hop".customers.id from x', "select s1.t2.id from a1"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    names = Names(capture(ORDERS, CUSTOMERS), WORDS)
    assert names.of_text(text) == expected


def test_all_of_a_capture() -> None:
    text = 'select customer_id from "Shop"."Orders" where id = $1'
    gap = 'orders are slow (2 places: "Orders", customer_id)'
    before = capture(ORDERS, CUSTOMERS, texts=(text,), gaps=(gap,))
    after = with_names(before, Names(before, WORDS))
    first = after.tables[0]
    assert (first.full_name, first.columns[1].name, first.keys) == ("s1.t1", "c1", (("id",),))
    assert first.indexes[0].sql == "USING btree (c1, lower(date)) WHERE c1 IS NOT NULL"
    assert after.statements[0].text == "select c1 from s1.t1 where id = $1"
    assert after.statements[0].parameters[0].table == "s1.t1"
    assert after.gaps == ("orders are slow (2 places: t1, c1)",)
    # What the names told is kept.
    assert Keys(before.tables).root(("Shop.Orders", "customer_id")) == ("Shop.customers", "id")
    assert Keys(after.tables).root(("s1.t1", "c1")) == ("s1.t2", "id")
    assert first.likely == (Reference(("c1",), "s1.t2", ("id",)),)


BODY = """CREATE OR REPLACE FUNCTION "Shop".total(customer_id bigint)
 RETURNS trigger LANGUAGE plpgsql AS $function$
declare
  place "Shop"."Orders"%ROWTYPE;
begin
  if TG_OP = 'INSERT' and new.customer_id is null then
    raise exception 'xxxx %s xxx', place.id using errcode = 'P0001';
  end if;
  perform nextval('"Shop"."Orders_id_seq"'), new.data ->> 'customer_id', 'absent'::regclass;
  return new;
exception when unique_violation then return null;
end
$function$"""


def test_code() -> None:
    serial = Column("id", "bigint", "int8", default="sequence")
    computed = Column("next", "bigint", "int8", generated="(customer_id + 1)")
    orders = replace(
        ORDERS,
        columns=(serial, number("customer_id"), computed),
        indexes=(),
        checks=("CHECK (customer_id > 0)",),
        triggers=(
            'CREATE TRIGGER zebra BEFORE INSERT ON "Shop"."Orders" FOR EACH ROW'
            " EXECUTE FUNCTION \"Shop\".total('customer_id')",
            'CREATE TRIGGER ape BEFORE INSERT ON "Shop"."Orders" FOR EACH ROW'
            ' EXECUTE FUNCTION "Shop".total()',
        ),
        scans=(Scans(2.0, "customer_id, (expression) (partial)"), Scans(1.0)),
    )
    before = replace(
        capture(orders, CUSTOMERS),
        functions=(Function("Shop", "total", BODY),),
        views=(View("Shop", "Rich", 'SELECT o.customer_id FROM "Shop"."Orders" o'),),
        settings={"work_mem": "7MB"},
    )
    words = WORDS | _plpgsql_words() | {"create", "function", "or", "replace", "returns", "trigger"}
    words |= {"language", "null", "begin", "if", "then", "return", "end", "when", "else", "data"}
    words |= {"before", "for", "each", "row", "execute", "check", "declare", "nextval", "regclass"}
    after = with_names(before, Names(before, words))
    (table, _), (function,), (view,) = after.tables, after.functions, after.views
    assert function.sql == (
        BODY.replace('"Shop"."Orders_id_seq"', "s1.t1_id_seq")
        .replace('"Shop"."Orders"', "s1.t1")
        .replace('"Shop".total', "s1.f1")
        .replace("customer_id", "c1")
        .replace("place", "a1")
        .replace("absent", "a2")
        .replace("CREATE OR REa1", "CREATE OR REPLACE")
    )
    assert (function.schema, function.name, view.schema, view.name) == ("s1", "f1", "s1", "v1")
    assert view.sql == "SELECT a3.c1 FROM s1.t1 a3"
    assert [each.split(" BEFORE")[0] for each in table.triggers] == [
        "CREATE TRIGGER trigger_00001",
        "CREATE TRIGGER trigger_00000",
    ]
    assert table.triggers[0].endswith("ON s1.t1 FOR EACH ROW EXECUTE FUNCTION s1.f1('c1')")
    assert table.checks == ("CHECK (c1 > 0)",)
    assert table.columns[2].generated == "(c1 + 1)"
    assert [each.index for each in table.scans] == ["c1, (expression) (partial)", ""]
    assert after.settings == before.settings


def test_names_in_messages_of_the_server() -> None:
    names = Names(capture(ORDERS), WORDS)
    note = 'left out: function shop.price(integer) of "Orders" at orders_all, in pg_stat_statements'
    assert names.of_note(note) == (
        "left out: function a1.a2(integer) of t1 at a3, in pg_stat_statements"
    )
    assert names.of_note("nothing is known: all alike") == "nothing is known: all alike"


def test_statements_that_are_left_out() -> None:
    before = capture(ORDERS, texts=("select 1", "select 2", "select 3"))
    both = Transaction(2.0, (Step(0), Step(2)))
    before = replace(
        before,
        transactions=(before.transactions[0], both),
        applications=(Application(1, 1.0, (1.0, 2.0)),),
    )
    after = _without(before, {0})
    assert [each.text for each in after.statements] == ["select 2", "select 3"]
    assert after.transactions == (Transaction(2.0, (Step(1),)),)
    assert after.applications == (Application(1, 1.0, (2.0,)),)
    assert len(after.gaps) == 1


NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=3, max_size=12).map(
    lambda text: f"Zq{text}"
)


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_of(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


@given(names=st.lists(NAME, min_size=7, max_size=7, unique=True), lower=st.booleans())
def test_no_old_name_is_left(names: list[str], *, lower: bool) -> None:
    if lower:  # Equal but for case.
        names[1], names[3] = names[0].lower(), names[2].lower()
        if len(set(names)) < 7:
            return
    schema, table, column, other, type_, alias, to = names
    key = Reference((column,), f"{schema}.{to}", (column,))
    columns = (number(column), Column(other, quoted(type_), "enum", labels=2))
    tables = (
        Table(schema, table, 10, 1, columns, keys=((column,),), references=(key,)),
        Table(schema, to, 10, 1, columns),
    )
    text = (
        f"select {quoted(alias)}.{quoted(column)} as {quoted(other)} from {quoted(schema)}"
        f".{quoted(table)} as {quoted(alias)} where {quoted(other)}=$1"
    )
    gap = f"left out: {quoted(table)}, {column}"
    before = capture(*tables, texts=(text,), gaps=(gap,))
    after = with_names(before, Names(before, WORDS))
    content = texts_of(msgspec.to_builtins(after))
    assert not [(old, text) for old in names for text in content if old in text]
    assert re.fullmatch(
        r"select (a\d+)\.c\d+ as c\d+ from s\d+\.t\d+ as \1 where c\d+ ?=\$1",
        after.statements[0].text,
    )
