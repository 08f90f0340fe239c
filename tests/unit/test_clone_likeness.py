"""The likeness of a clone and its source: which figures are alike, unlike or not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.clone.capture_file import (
    SHORTENED,
    Capture,
    Column,
    Parameter,
    Scans,
    SeenFinding,
    Source,
    Statement,
    Table,
)
from pgdyno.clone.likeness import Compared, Failures, Likeness, likeness
from pgdyno.report.words.capture import likeness_text

SELECT = Statement(
    "select * from orders where id = $1",
    (Parameter("bigint", "compared", "public.orders", "id"),),
    *(900.0, 1.0, 0.1, 0.0, 3.0, 0.0, 0.0),
)
UPDATE = Statement(
    "update stock set n = n - $1 where id = $2",
    (Parameter("bigint", "added", "public.stock", "n"),),
    *(100.0, 1.0, 0.1, 200.0, 5.0, 1.0, 3.0),
)
ORDERS = Table(
    schema="public",
    name="orders",
    rows=1000,
    pages=10,
    columns=(Column("id", "bigint", "int8"),),
    scans=(Scans(900.0, "id"),),
)
STOCK = Table(
    schema="public",
    name="stock",
    rows=1000,
    pages=10,
    columns=(Column("id", "bigint", "int8"),),
    updates_per_s=100.0,
    hot_share=0.9,
    scans=(Scans(1.0), Scans(99.0, "id")),
)
MINOR = SeenFinding("x", "minor")
SOURCE = Capture(
    format="pgdyno capture",
    version=1,
    made_by="pgdyno 0",
    source=Source(
        *(16, 60.0, 1000.0, 4, 2.0),
        cpu_ms=0.2,
        waits={"cpu": 0.7, "flush": 0.3},
        findings=(SeenFinding("wal-flush", "limit"), MINOR),
    ),
    tables=(ORDERS, STOCK),
    statements=(SELECT, UPDATE),
    transactions=(),
    gaps=(),
)


def compared(clone: Capture, *, clients: int = 4, failed: int = 0) -> Likeness:
    return likeness(SOURCE, clone, clients=clients, done=20_000, failed=failed)


def unlike(found: Likeness) -> list[tuple[str, str, str]]:
    return [(e.kind, e.name, e.of) for e in found.compared if e.verdict == "unlike"]


def with_source(**fields: Any) -> Capture:
    return replace(SOURCE, source=replace(SOURCE.source, **fields))


def test_it_is_alike_itself() -> None:
    found = compared(SOURCE)
    assert found.is_alike
    assert found.judged == len(found.compared) > 12


def test_lists_are_compared_with_lists() -> None:
    texts = "select from t where id in ($1)", f"select from t where id in ($1 {SHORTENED})"
    one, several = (
        replace(SELECT, text=text, rows=rows) for text, rows in zip(texts, (1.0, 4.0), strict=True)
    )
    source = replace(SOURCE, statements=(one, several))
    found = likeness(source, source, clients=4, done=20_000, failed=0)
    rows = [each for each in found.compared if each.name == "rows of a call"]
    assert [each.verdict for each in rows] == ["alike", "alike"]


@pytest.mark.parametrize(
    ("clone", "which"),
    [
        (with_source(transactions_per_s=1120.0), {"transactions"}),
        (with_source(cpu_ms=0.17), {"CPU of a transaction"}),
        (
            replace(SOURCE, statements=(replace(SELECT, calls_per_s=1200.0), UPDATE)),
            {"statements"},
        ),
        (with_source(waits={"cpu": 1.0}), {"sessions at work"}),
        (with_source(findings=()), {"first finding"}),
        (with_source(findings=(MINOR,)), {"first finding"}),
        (replace(SOURCE, statements=(UPDATE,)), {"calls", "pages read by a transaction"}),
        (replace(SOURCE, statements=(SELECT, replace(UPDATE, rows=1.2))), {"rows of a call"}),
        (
            replace(SOURCE, statements=(SELECT, replace(UPDATE, wal_bytes=300.0))),
            {"WAL of a call", "WAL of a transaction"},
        ),
        (replace(SOURCE, tables=(ORDERS, replace(STOCK, hot_share=0.8))), {"updates that are HOT"}),
    ],
)
def test_each_figure_is_judged(clone: Capture, which: set[str]) -> None:
    found = compared(clone)
    assert which <= {name for _, name, _ in unlike(found)}
    assert not found.is_alike
    assert found.compared[0].verdict == "unlike"


def test_little_is_no_difference() -> None:
    near = with_source(transactions_per_s=1050.0, cpu_ms=0.21, waits={"cpu": 0.74, "flush": 0.26})
    assert compared(near).is_alike


def test_what_fails_is_an_error() -> None:
    assert unlike(compared(SOURCE, failed=10)) == []
    assert unlike(compared(SOURCE, failed=30))[0][0] == "errors"
    none = likeness(SOURCE, SOURCE, clients=4, done=0, failed=0)
    assert unlike(none)[0][:2] == ("errors", "transactions that fail")


def test_what_failed_and_what_is_not_known_is_said_in_short() -> None:
    rare = [
        replace(SELECT, text=f"select {name}", calls_per_s=0.1) for name in ("one", "two", "three")
    ]
    source = replace(SOURCE, statements=(*SOURCE.statements, *rare))
    failures = [Failures(30, "23505 duplicate key", "insert into orders …")]
    lines = likeness_text(likeness(source, SOURCE, clients=4, done=9, failed=30, failures=failures))
    assert lines[0].startswith("unlike in 1 of")
    assert "(errors 1)" in lines[0]
    assert lines[1:3] == [
        "failed: 30 transactions: 23505 duplicate key",
        "  insert into orders …",
    ]
    assert [each for each in lines if each.startswith("not known: calls")] == [
        "not known: calls (3): executed too rarely"
    ]


def test_what_takes_most_time_comes_first() -> None:
    more = replace(SELECT, text="select more", ms=9.0)
    clone = replace(SOURCE, statements=())
    found = likeness(
        replace(SOURCE, statements=(UPDATE, SELECT, more)), clone, clients=4, done=9, failed=0
    )
    missing = [of for _, name, of in unlike(found) if name == "calls"]
    assert missing == ["select more", SELECT.text, UPDATE.text]


def scanned(*orders: Scans) -> Capture:
    return replace(SOURCE, tables=(replace(ORDERS, scans=orders), STOCK))


def test_another_plan_is_the_time_of_its_statements() -> None:
    found = compared(scanned(Scans(900.0)))
    names = unlike(found)
    assert ("performance", "scans of the whole table", "public.orders") in names
    assert ("performance", "scans by this index", "public.orders (id)") in names
    (time,) = (e for e in found.compared if e.name == "time in statements with the same scans")
    assert time.verdict == "unlike"
    assert time.clone == pytest.approx(0.1)


def test_wal_is_not_compared_where_checkpoints_were_at_other_times() -> None:
    def with_images(images: float, wal_bytes: float) -> Capture:
        update = replace(UPDATE, wal_images=images, wal_bytes=wal_bytes)
        return replace(SOURCE, statements=(replace(SELECT, wal_images=0.0), update))

    few, many = with_images(0.001, 200.0), with_images(0.02, 380.0)
    found = likeness(few, many, clients=4, done=9, failed=0)
    assert found.is_alike
    why = {e.name: e.why for e in found.compared if e.verdict == "unknown"}
    assert {"WAL of a call", "WAL of a transaction"} <= why.keys()
    assert "0.001 and 0.02" in why["WAL of a call"]
    same = likeness(many, with_images(0.02, 500.0), clients=4, done=9, failed=0)
    assert {"WAL of a call", "WAL of a transaction"} <= {name for _, name, _ in unlike(same)}


def test_rare_statements_and_scans_are_not_judged() -> None:
    rare = replace(SELECT, text="select rare", calls_per_s=0.1, rows=5.0)
    of_source = replace(SOURCE, statements=(*SOURCE.statements, rare))
    found = likeness(of_source, SOURCE, clients=4, done=9, failed=0)
    (missing,) = (e for e in found.compared if e.of == "select rare")
    assert missing.verdict == "unknown"


def test_what_is_not_known_is_no_difference() -> None:
    old = replace(
        with_source(cpu_ms=None, waits=None, findings=None),
        statements=tuple(
            replace(each, pages=None, pages_dirtied=None) for each in SOURCE.statements
        ),
        tables=tuple(replace(each, scans=()) for each in SOURCE.tables),
    )
    found = likeness(old, SOURCE, clients=8, done=9, failed=0)
    assert found.is_alike
    unknown = {e.name for e in found.compared if e.verdict == "unknown"}
    assert {"transactions", "CPU of a transaction", "waits", "first finding"} <= unknown
    assert all(e.why for e in found.compared if e.verdict == "unknown")


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=6))
def test_a_figure_has_one_verdict(values: Sequence[float]) -> None:
    tps, cpu, rows, wal, pages, share = values
    clone = replace(
        with_source(transactions_per_s=tps, cpu_ms=cpu, waits={"cpu": share / 1e6}),
        statements=(SELECT, replace(UPDATE, rows=rows, wal_bytes=wal, pages=pages)),
    )
    found = compared(clone)
    order = [("unlike", "alike", "unknown").index(e.verdict) for e in found.compared]
    assert order == sorted(order)
    assert found.unlike == len(unlike(found))
    assert found.is_alike == (not found.unlike)
    assert all(isinstance(e, Compared) for e in found.compared)
    assert len(likeness_text(found)) > 1
