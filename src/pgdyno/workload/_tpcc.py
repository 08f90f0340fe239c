"""The tables of the ``tpcc-like`` workload, their rows, and the conditions that hold in them.

Tables, rows and transactions are those of the TPC-C standard, revision 5.11, so that others can
place the figures; nothing of it is audited. Scale is the number of warehouses. All warehouses have
the same rows, each with its own number: they are made once and sent for each.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from pgdyno.workload._found import TPCC_COLUMNS, FoundTable, schema_of
from pgdyno.workload._own_tables import Consistency, OwnTables
from pgdyno.workload._queries import query_in
from pgdyno.workload.table_space import tpcc_space

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec

DISTRICTS, CUSTOMERS, ITEMS = 10, 3000, 100_000
"""Of a warehouse, of a district, and in all (clause 1.2.1)."""
DELIVERED = 2100
"""Orders of a district that are delivered at first; the others are new (clause 4.3.3.1)."""
FUNCTIONS = (
    *("tpcc_new_order", "tpcc_customer", "tpcc_payment", "tpcc_order_status", "tpcc_delivery"),
    "tpcc_stock_level",
)
_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
_LAST_NAME_C = 157
"""Constant C of the names as they are loaded; scripts have 223, which is 66 more (2.1.6.1)."""
_WAREHOUSE = "<"
"""Stands for the number of the warehouse in rows that are made once."""
_LETTERS = string.ascii_letters + string.digits
_LONG = 1 << 16
_SEED = 511
_PIECE_ROWS = 10_000
_NOW = "2026-01-01 00:00:00+00"
Rows = Iterator[str]


_CONDITIONS = (
    "warehouses whose payments are not those of their districts",
    "districts whose next number does not follow their last order",
    "districts with a gap in their new orders",
    "districts whose orders have other lines than they say",
)
"""Conditions 1 to 4 of clause 3.3.2, where they do not hold: the first columns of the check, before
the number of orders."""


def _check(conn: Control) -> Consistency:
    row = conn.execute(query_in(schema_of(conn, "tpcc_orders"), "tpcc_checks")).fetchone()
    assert row is not None
    *broken, orders = map(int, row)
    return Consistency({"orders": orders}, dict(zip(_CONDITIONS, broken, strict=True)))


def _make(conn: Control, schema: str, wanted: WorkloadSpec) -> None:
    conn.execute(query_in(schema, "tpcc_tables"))
    chance = random.Random(_SEED)
    made = _Rows(chance)
    _copy(conn, schema, "tpcc_items", _pieces(made.items()))
    for table, rows in made.of_a_warehouse().items():
        pieces = [*_pieces(rows())]
        for warehouse in range(1, wanted.scale + 1):
            _copy(conn, schema, table, (p.replace(_WAREHOUSE, f"{warehouse}") for p in pieces))
    conn.execute(query_in(schema, "tpcc_keys"))
    conn.execute(query_in(schema, "tpcc_functions"))


def _copy(conn: Control, schema: str, table: str, pieces: Iterable[str]) -> None:
    from psycopg import sql

    command = sql.SQL("copy {} ({}) from stdin with (freeze)").format(
        sql.Identifier(schema, table), sql.SQL(", ".join(TPCC_COLUMNS[table]))
    )
    with conn.cursor().copy(command) as copy:
        for piece in pieces:
            copy.write(piece)


def _pieces(rows: Rows) -> Iterator[str]:
    while piece := "".join(islice(rows, _PIECE_ROWS)):
        yield piece


def _last_name(number: int) -> str:
    """Return the last name of a customer by a number below 1,000 (clause 4.3.2.3)."""
    return "".join(_SYLLABLES[int(digit)] for digit in f"{number:03}")


class _Rows:
    """The rows of the tables, as text for COPY (clause 4.3.3.1)."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._long = "".join(chance.choices(_LETTERS, k=_LONG))

    def items(self) -> Rows:
        """Yield the items, which are the same for all warehouses."""
        for number in range(1, ITEMS + 1):
            price = self._number(100, 10_000) / 100
            yield (
                f"{number}\t{self._number(1, 10_000)}\t{self._text(14, 24)}\t{price:.2f}"
                f"\t{self._data()}\n"
            )

    def of_a_warehouse(self) -> Mapping[str, Callable[[], Rows]]:
        """Return the rows of a warehouse by table."""
        return {
            "tpcc_warehouses": self._warehouses,
            "tpcc_districts": self._districts,
            "tpcc_customers": self._customers,
            "tpcc_history": self._history,
            "tpcc_orders": self._orders,
            "tpcc_order_lines": self._order_lines,
            "tpcc_new_orders": self._new_orders,
            "tpcc_stock": self._stock,
        }

    def _warehouses(self) -> Rows:
        tax = self._number(0, 2000) / 10_000
        yield f"{_WAREHOUSE}\t{self._text(6, 10)}\t{self._address()}\t{tax:.4f}\t300000.00\n"

    def _districts(self) -> Rows:
        for number in range(1, DISTRICTS + 1):
            tax = self._number(0, 2000) / 10_000
            yield (
                f"{_WAREHOUSE}\t{number}\t{self._text(6, 10)}\t{self._address()}\t{tax:.4f}"
                f"\t30000.00\t{CUSTOMERS + 1}\n"
            )

    def _customers(self) -> Rows:
        for district, number in _of_districts():
            named = number - 1 if number <= 1000 else self._name_number()
            credit = "BC" if self._chance.random() < 0.1 else "GC"
            yield (
                f"{_WAREHOUSE}\t{district}\t{number}\t{self._text(8, 16)}\tOE\t{_last_name(named)}"
                f"\t{self._address()}\t{self._digits(16)}\t{_NOW}\t{credit}\t50000.00"
                f"\t{self._number(0, 5000) / 10_000:.4f}\t-10.00\t10.00\t1\t0"
                f"\t{self._text(300, 500)}\n"
            )

    def _history(self) -> Rows:
        for district, number in _of_districts():
            yield (
                f"{number}\t{district}\t{_WAREHOUSE}\t{district}\t{_WAREHOUSE}\t{_NOW}\t10.00"
                f"\t{self._text(12, 24)}\n"
            )

    def _orders(self) -> Rows:
        for district in range(1, DISTRICTS + 1):
            customers = self._chance.sample(range(1, CUSTOMERS + 1), CUSTOMERS)
            for number, customer in enumerate(customers, start=1):
                carrier = self._number(1, 10) if number <= DELIVERED else r"\N"
                yield (
                    f"{_WAREHOUSE}\t{district}\t{number}\t{customer}\t{carrier}"
                    f"\t{_lines_of(district, number)}\t1\t{_NOW}\n"
                )

    def _order_lines(self) -> Rows:
        for district, number in _of_districts():
            is_delivered = number <= DELIVERED
            delivered = _NOW if is_delivered else r"\N"
            for line in range(1, _lines_of(district, number) + 1):
                amount = 0.0 if is_delivered else self._number(1, 999_999) / 100
                yield (
                    f"{_WAREHOUSE}\t{district}\t{number}\t{line}\t{self._number(1, ITEMS)}"
                    f"\t{delivered}\t{amount:.2f}\t{_WAREHOUSE}\t5\t{self._text(24, 24)}\n"
                )

    def _new_orders(self) -> Rows:
        for district, number in _of_districts():
            if number > DELIVERED:
                yield f"{_WAREHOUSE}\t{district}\t{number}\n"

    def _stock(self) -> Rows:
        for number in range(1, ITEMS + 1):
            dists = "\t".join(self._text(24, 24) for _ in range(DISTRICTS))
            yield (
                f"{_WAREHOUSE}\t{number}\t{self._number(10, 100)}\t0\t0\t0\t{self._data()}"
                f"\t{dists}\n"
            )

    def _number(self, least: int, most: int) -> int:
        return least + int(self._chance.random() * (most - least + 1))

    def _text(self, least: int, most: int) -> str:
        length = self._number(least, most)
        begin = self._number(0, _LONG - length)
        return self._long[begin : begin + length]

    def _digits(self, length: int) -> str:
        return f"{self._number(0, 10**length - 1):0{length}}"

    def _data(self) -> str:
        """Return a text that has ORIGINAL within it in one of ten."""
        text = self._text(26, 50)
        if self._chance.random() >= 0.1:
            return text
        begin = self._number(0, len(text) - 8)
        return f"{text[:begin]}ORIGINAL{text[begin + 8 :]}"

    def _address(self) -> str:
        """Return street, street, city, state and zip code."""
        state = f"{self._text(2, 2).upper()}"
        texts = (self._text(10, 20), self._text(10, 20), self._text(10, 20), state)
        return "\t".join((*texts, f"{self._digits(4)}11111"))

    def _name_number(self) -> int:
        """Return NURand(255, 0, 999) of clause 2.1.6."""
        drawn = self._number(0, 255) | self._number(0, 999)
        return (drawn + _LAST_NAME_C) % 1000


def _of_districts() -> Iterator[tuple[int, int]]:
    """Yield each district with the numbers of its customers, or of its orders."""
    for district in range(1, DISTRICTS + 1):
        for number in range(1, CUSTOMERS + 1):
            yield district, number


def _lines_of(district: int, order: int) -> int:
    """Return the number of lines of an order as it is loaded, 5 to 15, which its lines must have,
    too."""
    return 5 + (order * 7919 + district * 104_729) % 11


def _scale(conn: Control, found: Mapping[str, FoundTable], _: WorkloadSpec) -> int:
    """Return the scale: the number of warehouses."""
    schema = found["tpcc_warehouses"].schema
    row = conn.execute(query_in(schema, "tpcc_scale")).fetchone()
    assert row is not None
    return int(row[0])


TPCC = OwnTables(
    *("tpcc-like", TPCC_COLUMNS, _make, _scale, tpcc_space),
    routines=FUNCTIONS,
    check=_check,
)
