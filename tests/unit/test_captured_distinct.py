"""Numbers of different values that follow from the rows of statements."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdyno.capture._distinct import with_distinct
from pgdyno.clone.capture_file import (
    SHORTENED,
    Column,
    Parameter,
    Reference,
    Statement,
    Table,
    Use,
)
from pgdyno.clone.limits import least_limit, limited, unlimited

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
    (table,) = with_distinct((_ORDERS,), [Statement(text, parameters, 5.0, rows, 0.1, 0.0)], {})
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


@pytest.mark.parametrize(("rows", "told"), [(100.0, 10.0), (0.5, None)])
def test_rows_in_a_range_tell_that_there_are_few_values(rows: float, told: float | None) -> None:
    uses: tuple[tuple[Use, str], ...] = ("compared", "shop"), ("compared", "state"), ("most", "id")
    parameters = tuple(Parameter("bigint", use, "public.orders", name) for use, name in uses)
    statements = [
        Statement("delete from orders", parameters, 5.0, each, 0.1, 0.0)
        for each in (rows, rows / 2)
    ]
    (table,) = with_distinct((_ORDERS,), statements, {})
    assert [each.distinct for each in table.columns if each.name == "state"] == [told]


def test_a_column_is_told_beside_one_that_another_statement_tells() -> None:
    customer = Parameter("bigint", "compared", "public.orders", "customer")
    state = Parameter("text", "compared", "public.orders", "state")
    both = Statement("select", (customer, state), 9.0, 10.0, 0.1, 0.0)
    alone = Statement("select", (customer,), 5.0, 50.0, 0.1, 0.0)
    (table,) = with_distinct((_ORDERS,), [both, alone], {})
    assert [each.distinct for each in table.columns] == [None, 200, 5, 10]


def test_a_table_that_grows_had_more_rows_when_they_were_found() -> None:
    parameter = Parameter("bigint", "compared", "public.orders", "customer")
    statement = Statement("select", (parameter,), 5.0, 50.0, 0.1, 0.0)
    (table,) = with_distinct((_ORDERS,), [statement], {"public.orders": 15_000})
    assert table.columns[1].distinct == 300


@pytest.mark.parametrize(
    ("rows", "columns", "told"),
    [
        (40.0, ["shop"], {"shop": 250.0}),
        (0.5, ["shop"], {}),
        (5.0, ["article"], {"article": -0.2}),
        (0.5, ["shop", "article"], {}),
    ],
)
def test_rows_tell_to_how_many_others_refer(
    rows: float, columns: list[str], told: dict[str, float]
) -> None:
    shops = Table("public", "shops", 2000, 9, (Column("id", "bigint", "int8"),), keys=(("id",),))
    offers = Table(
        *("public", "offers", 10_000, 90),
        (Column("shop", "bigint", "int8"), Column("article", "bigint", "int8")),
        keys=(("shop", "article"),),
        references=(Reference(("shop",), "public.shops", ("id",)),),
    )
    parameters = tuple(Parameter("bigint", "compared", "public.offers", each) for each in columns)
    statement = Statement("select", parameters, 5.0, rows, 0.1, 0.0)
    _, table = with_distinct((shops, offers), [statement], {})
    found = {each.name: each.distinct for each in table.columns if each.distinct is not None}
    assert found == told
    listed = replace(statement, text=f"select 1 from offers where shop in ($1 {SHORTENED})")
    assert with_distinct((shops, offers), [listed], {}) == (shops, offers)


@pytest.mark.parametrize("rows", [0.3, 0.9, 1.5, 3.4, 7.9, 80.2])
def test_values_have_more_rows_than_a_limit_shows(rows: float) -> None:
    mean = unlimited(rows)
    assert rows < mean < 4 * max(1.0, rows)
    assert limited(mean, least_limit(rows)) == pytest.approx(rows, rel=0.001)
    assert least_limit(rows) - 1 < rows <= least_limit(rows)


_QUEUE = Table(
    "public",
    "queue",
    20,
    1,
    (Column("order_id", "bigint", "int8"), Column("state", "text", "text")),
)


def test_a_queue_has_as_many_values_as_it_takes_to_empty_it() -> None:
    parameters = (Parameter("bigint", "compared", "public.queue", "order_id"),)
    text = "delete from queue where order_id = $1"
    statement = Statement(text, parameters, 5.0, 5.0, 0.1, 0.0)
    _, queue = with_distinct((_ORDERS, _QUEUE), [statement], {})
    assert [each.distinct for each in queue.columns] == [-0.2, None]


@pytest.mark.parametrize(("rows", "told"), [(3.0, 3.0), (20.0, None)])
def test_groups_are_values_that_are_copied_with_their_rows(rows: float, told: float | None) -> None:
    text = "select state, count(*) from orders where shop = $1 group by state"
    parameters = (Parameter("bigint", "compared", "public.orders", "shop"),)
    statements = [
        Statement(text, parameters, 5.0, rows, 0.1, 0.0),
        Statement("insert into orders (state) select state from queue", (), 1.0, 1.0, 1.0, 1.0),
    ]
    orders, queue = with_distinct((replace(_ORDERS, rows=200), _QUEUE), statements, {})
    assert [each.distinct for each in orders.columns if each.name == "state"] == [told]
    copied = [Reference(("state",), "public.orders", ("state",))] if told else []
    assert [*queue.likely] == copied


def test_values_that_statistics_tell_are_copied_with_their_rows() -> None:
    columns = tuple(
        replace(each, distinct=3.0) if each.name == "state" else each for each in _ORDERS.columns
    )
    copies = Statement("insert into orders (state) select state from queue", (), 1.0, 1.0, 1.0, 1.0)
    _, queue = with_distinct((replace(_ORDERS, columns=columns), _QUEUE), [copies], {})
    assert [*queue.likely] == [Reference(("state",), "public.orders", ("state",))]
