"""Statements that were seen alone, in the transactions that they belong to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdyno.capture._belonging import with_belonging
from pgdyno.capture._order import possible_order
from pgdyno.capture._transactions import Kind
from pgdyno.clone.capture_file import Column, Parameter, Reference, Statement, Table
from pgdyno.clone.keys import Keys

_ID = Column("id", "bigint", "int8", not_null=True)
_ORDERS = Table("public", "orders", 100, 1, (_ID,), keys=(("id",),))
_INVOICES = Table(
    *("public", "invoices", 100, 1, (_ID,)),
    keys=(("id",),),
    references=(Reference(("id",), "public.orders", ("id",)),),
)
_TEXTS = {
    "order": "insert into orders (id) values ($1)",
    "look": "select id from orders where id = $1",
    "invoice": "insert into invoices (id) values ($1)",
    "void": "delete from invoices where id = $1",
    "two": "insert into invoices (id) values ($1), ($2)",
}
_STATEMENTS = {key: Statement(text, (), 1.0, 1.0, 1.0, 1.0) for key, text in _TEXTS.items()}
_KEYS = Keys((_ORDERS, _INVOICES))
_OF_ORDERS = Kind(("order", "look"), 100.0, block=True)


def _joined(*kinds: Kind) -> list[tuple[str, ...]]:
    calls = {each: kind.transactions for kind in kinds for each in kind.statements}
    return [each.statements for each in with_belonging(kinds, _STATEMENTS, calls, _KEYS)]


def test_a_row_beside_each_new_one_comes_with_it() -> None:
    alone = Kind(("invoice",), 60.0, block=True)
    assert _joined(_OF_ORDERS, alone) == [("order", "look", "invoice")]
    assert _joined(_OF_ORDERS, replace(alone, block=False)) == [("order", "look", "invoice")]


@pytest.mark.parametrize(("times", "together"), [(41.0, True), (50.0, False)])
def test_rows_that_are_replaced_as_often_as_they_are_deleted(
    times: float, *, together: bool
) -> None:
    first, second = Kind(("void",), 40.0, block=True), Kind(("invoice",), times, block=True)
    found = _joined(first, second)
    assert found == ([("invoice", "void")] if together else [("void",), ("invoice",)])


@pytest.mark.parametrize(
    "alone",
    [
        Kind(("void",), 100.0, block=False),
        Kind(("invoice",), 200.0, block=True),
        Kind(("look",), 100.0, block=True),
    ],
    ids=["commits by itself", "more often", "changes nothing"],
)
def test_other_statements_stay_alone(alone: Kind) -> None:
    others = Kind(("order",), 100.0, block=True)
    assert _joined(others, alone) == [others.statements, alone.statements]


def test_what_is_rare_may_have_a_block() -> None:
    often = Kind(("look",), 10_000.0, block=False)
    rare = (Kind((each,), 12.0, block=False) for each in ("void", "invoice"))
    assert _joined(often, *rare) == [("look",), ("invoice", "void")]


def test_statements_that_differ_in_their_rows_are_one() -> None:
    one, two = Kind(("invoice",), 90.0, block=True), Kind(("two",), 10.0, block=False)
    of_orders = replace(_OF_ORDERS, statements=("order", "invoice"))
    assert _joined(of_orders, two) == [("order", "invoice", "two")]
    found = with_belonging([one, two], _STATEMENTS, {"invoice": 90.0, "two": 10.0}, _KEYS)
    assert found == [Kind(("invoice", "two"), 100.0, block=True)]
    # Together they are as many as the rows that they replace.
    void = Kind(("void",), 100.0, block=True)
    assert _joined(void, one, two) == [("invoice", "two", "void")]


def test_rows_that_others_find_are_replaced_at_once() -> None:
    compared = (Parameter("bigint", "compared", "public.invoices", "id"),)
    text = "select * from invoices where id = $1"
    found = {"find": Statement(text, compared, 1.0, 1.0, 1.0, 1.0)}
    kinds = [Kind(("void", "look"), 200.0, block=True), Kind(("invoice",), 199.0, block=False)]
    calls = {"void": 200.0, "look": 200.0, "invoice": 199.0}
    assert with_belonging(kinds, _STATEMENTS, calls, _KEYS) == kinds
    (joined,) = with_belonging(kinds, _STATEMENTS | found, calls, _KEYS)
    assert joined.statements == ("void", "look", "invoice")


@pytest.mark.parametrize(("rows", "order"), [(1000.0, [1, 0]), (5.0, [0, 1])])
def test_rows_that_stay_are_deleted_before_others_take_their_place(
    rows: float, order: list[int]
) -> None:
    """A lock is deleted behind the INSERT that takes it."""
    table = replace(_ORDERS, rows=rows)
    compared = (Parameter("bigint", "compared", "public.orders", "id"),)
    delete = Statement("delete from orders where id = $1", compared, 1.0, 1.0, 1.0, 1.0)
    assert possible_order([_STATEMENTS["order"], delete], Keys((table,))) == order
