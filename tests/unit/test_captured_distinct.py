"""Numbers of different values that follow from the rows of statements."""

from __future__ import annotations

import pytest

from pgdyno.capture._distinct import with_distinct
from pgdyno.clone.capture_file import Column, Parameter, Statement, Table

_ORDERS = Table(
    "public",
    "orders",
    10_000,
    90,
    (
        Column("id", "bigint", "int8"),
        Column("customer", "bigint", "int8"),
        Column("state", "text", "text"),
        Column("shop", "integer", "int4", distinct=10),
    ),
    keys=(("id",),),
    has_primary=True,
)


def _told(text: str, rows: float, *columns: str) -> dict[str, float | None]:
    parameters = tuple(Parameter("bigint", "compared", "public.orders", each) for each in columns)
    parameters += (Parameter("bigint", "limit"),) if "limit" in text else ()
    (table,) = with_distinct((_ORDERS,), [Statement(text, parameters, 5.0, rows, 0.1, 0.0)])
    return {each.name: each.distinct for each in table.columns}


@pytest.mark.parametrize(
    ("text", "rows", "columns", "told"),
    [
        ("select * from orders where customer = $1", 50.0, ["customer"], {"customer": 200.0}),
        ("select * from orders where state = $1 limit $2", 5.0, ["state"], {"state": 666.6667}),
        (
            "select * from orders where shop = $1 and customer = $2",
            2.0,
            ["shop", "customer"],
            {"customer": 500.0},
        ),
        ("select count(*) from orders where customer = $1", 1.0, ["customer"], {}),
        ("select * from orders where customer = $1", 0.0, ["customer"], {}),
        ("select * from orders where id = $1", 1.0, ["id"], {}),
        ("select * from orders where customer = $1 and state = $2", 2.0, ["customer", "state"], {}),
    ],
)
def test_rows_of_a_statement_tell_the_number_of_values(
    text: str, rows: float, columns: list[str], told: dict[str, float]
) -> None:
    known = {"id": None, "customer": None, "state": None, "shop": 10}
    assert _told(text, rows, *columns) == known | told
