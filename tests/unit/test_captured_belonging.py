"""Statements that were seen alone, in the transactions that they belong to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdyno.capture._belonging import with_belonging
from pgdyno.capture._transactions import Kind
from pgdyno.clone.capture_file import Column, Reference, Statement, Table
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
}
_STATEMENTS = {key: Statement(text, (), 1.0, 1.0, 1.0, 1.0) for key, text in _TEXTS.items()}
_OF_ORDERS = Kind(("order", "look"), 100.0, block=True)


def _joined(*kinds: Kind) -> list[tuple[str, ...]]:
    calls = {each: kind.transactions for kind in kinds for each in kind.statements}
    keys = Keys((_ORDERS, _INVOICES))
    return [each.statements for each in with_belonging(kinds, _STATEMENTS, calls, keys)]


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
