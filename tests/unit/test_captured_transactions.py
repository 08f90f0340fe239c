"""Kinds of transactions from the statements that were seen in them, and texts without values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.capture._lists import rows_of_values
from pgdyno.capture._making import _executed
from pgdyno.capture._sampling import Together
from pgdyno.capture._scanning import values_in
from pgdyno.capture._texts import begins, is_kept, is_recursive, without_values
from pgdyno.capture._transactions import Kind, Seen, evened, kinds_of
from pgdyno.clone.capture_file import Statement


def test_statements_seen_together_are_one_kind_in_their_order() -> None:
    sequences = [["a", "b"], ["b", "c"], ["a", "c"], ["d"]] * 5
    found = kinds_of(
        {"c": 100.0, "a": 101.0, "b": 99.0, "d": 300.0}, Seen(1.0, sequences), begins=101
    )
    assert found == [
        Kind(("d",), 300.0, block=False),
        Kind(("a", "b", "c"), 101.0, block=True),
    ]


def test_a_repeated_statement_does_not_count_the_transactions() -> None:
    sequences = [["a", "b", "b", "b"], ["a", "b"]]
    (found,) = kinds_of({"a": 100.0, "b": 900.0}, Seen(1.0, sequences), begins=100)
    assert (found.statements, found.transactions) == (("a", "b"), 100.0)


def test_statements_that_may_be_in_the_same_transactions_are_executed_as_often() -> None:
    calls = {"a": 100.0, "b": 99.0, "c": 11.0, "d": 15.0, "e": 13.0, "f": 12.0}
    even = dict.fromkeys("cef", 12.0)
    assert evened(calls) == {"a": 99.5, "b": 99.5, "d": 15.0, **even}


def test_one_accidental_meeting_joins_nothing() -> None:
    # The start of a transaction and of the next one may be read in the same microsecond.
    sequences = [["a"]] * 500 + [["b"]] * 500 + [["a", "b"]]
    found = kinds_of({"a": 500.0, "b": 400.0}, Seen(1.0, sequences), begins=0)
    assert [each.statements for each in found] == [("a",), ("b",)]


@pytest.mark.parametrize(("begins_", "together"), [(1000.0, True), (0.0, False)])
def test_equal_counts_are_one_kind_if_there_are_as_many_blocks(
    begins_: float, together: bool
) -> None:
    found = kinds_of({"a": 1000.0, "b": 999.0, "c": 300.0}, Seen(1.0, []), begins_)
    if together:
        assert found[0] == Kind(("b", "a"), 1000.0, block=True, guessed=True)
    assert len(found) == (2 if together else 3)


def test_equal_counts_are_one_kind_if_fewer_transactions_ended_than_statements() -> None:
    # Clients prepare BEGIN, which is not counted then.
    calls = {"a": 1000.0, "b": 999.0, "c": 300.0}
    found = kinds_of(calls, Seen(1.0, []), begins=0, ended=1301)
    assert found[0] == Kind(("b", "a"), 1000.0, block=True, guessed=True)
    assert len(kinds_of(calls, Seen(1.0, []), begins=0, ended=2299)) == 3
    # So many may not be counted yet.
    calls["c"] = 50_000.0
    assert len(kinds_of(calls, Seen(10.0, []), begins=0, ended=51_000)) == 3
    assert len(kinds_of(calls, Seen(60.0, []), begins=0, ended=51_000)) == 2


@pytest.mark.parametrize(
    ("ended", "seconds", "transactions"),
    [
        pytest.param(None, 600.0, 100.0, id="as often as it was seen"),
        pytest.param(1020.0, 600.0, 120.0, id="as many as are left"),
        pytest.param(1020.0, 2.0, 101.0, id="hardly so after a short time"),
        pytest.param(1900.0, 600.0, 100.0, id="far more are left, which are of something else"),
        pytest.param(1100.0, 600.0, 140.0, id="never more than the calls of a statement"),
    ],
)
def test_transactions_with_a_loop_alone_are_counted_by_all(
    ended: float | None, seconds: float, transactions: float
) -> None:
    sequences = [["a", "b"]] * 90 + [["c", "d", "c", "d"]] * 10
    calls = {"a": 900.0, "b": 900.0, "c": 1000.0, "d": 140.0}
    found = kinds_of(calls, Seen(seconds, sequences), begins=0, ended=ended)
    assert found[1].statements == ("c", "d")
    assert found[1].transactions == pytest.approx(transactions, rel=0.01)


def test_a_load_of_a_loop_has_as_many_transactions_as_ended() -> None:
    (found,) = kinds_of(
        {"c": 1000.0, "d": 1000.0}, Seen(1.0, [["c", "d", "c", "d"]]), begins=0, ended=100.0
    )
    assert found.transactions == 100.0


def test_one_accidental_repetition_is_no_loop() -> None:
    sequences = [["a", "b"]] * 30 + [["a", "b", "a", "b"]]
    (found,) = kinds_of({"a": 500.0, "b": 500.0}, Seen(60.0, sequences), begins=0, ended=500)
    assert (found.transactions, found.looped) == (500.0, False)


def test_statements_of_a_loop_are_in_the_order_in_which_they_follow_each_other() -> None:
    turn = ["c", "a", "d", "b"] * 4
    sequences = [[*turn[place : place + 9 : 1 + place % 2]] for place in range(6)]
    found = Together(sequences).in_circle(["a", "b", "c", "d"])
    start = found.index("c")
    assert [*found[start:], *found[:start]] == ["c", "a", "d", "b"]
    many = [*map(str, range(40))]
    assert [*Together([many * 2]).in_circle(many[::-1])] == many[::-1]


def test_a_single_statement_has_a_block_where_there_are_enough() -> None:
    (found,) = kinds_of({"a": 100.0}, Seen(1.0, [["a"]]), begins=100)
    assert found.block


def test_statements_that_are_not_counted_are_not_seen() -> None:
    together = Together([["a", "b"]])
    assert together.are_together("a", "b")
    found = kinds_of({"a": 1.0, "b": 1.0}, Seen(1.0, [["a", "begin", "b"]]), begins=1)
    assert [each.statements for each in found] == [("a", "b")]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("select /* user=ann */ 1 -- x\n from t;", "select $1 from t"),
        (
            "insert into t values ($1, 1, $2), ($3, 2, 'x')",
            "insert into t values ($1, $4, $2), ($3, $5, $6)",
        ),
        ("select $1, 'secret', 12345 from t", "select $1, $2, $3 from t"),
        ("select a from t order by 1 limit $2", "select a from t order by 1 limit $1"),
        ('select "it\'s" from "2024" where a1 = $1', 'select "it\'s" from "2024" where a1 = $1'),
        ("select x::numeric(10,2), $$secret$$", "select x::numeric(10,2), $1"),
        (
            "select a::character varying (20) from t group by b, 1 having count(*) > 5 limit 5",
            "select a::character varying (20) from t group by b, 1 having count(*) > $1 limit $2",
        ),
        ("select a from t where b in ($1 /*, ... */)",) * 2,
        ("select $1 + INTERVAL $2", "select $1 + $2::INTERVAL"),
        ("select date $1, a from t where b = $2", "select $1::date, a from t where b = $2"),
        ("select extract($1 from a), $2 from t", "select extract(epoch from a), $1 from t"),
        (
            "select date_trunc($1, a at time zone $2)",
            "select date_trunc('day', a at time zone 'UTC')",
        ),
    ],
)
def test_texts_without_values(text: str, plain: str) -> None:
    assert without_values(text) == plain


@given(st.text(alphabet="ab'\"$/*- \n;(),=1234567890E\\", max_size=60))
def test_no_literal_is_left(text: str) -> None:
    plain = without_values(text)
    outside = re.sub(r'"(?:[^"]|"")*(?:"|$)', " ", plain)
    assert "'" not in outside.replace("'day'", "").replace("'UTC'", "")
    assert not re.search(r"(?<![\w$.])\d{3,}(?![\w$])", outside)


def test_kinds_of_statements() -> None:
    assert is_kept("  (select 1)")
    assert is_kept("WITH x as (select 1) select 1")
    assert not is_kept("copy t to stdout")
    assert is_kept('select 1 from only "t" x where "id" = 1 for key share of x')
    assert not is_kept(
        'SELECT $2 FROM ONLY "public"."t" x WHERE "id" OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF x'
    )
    assert not is_kept('DELETE FROM ONLY "public"."t" WHERE $1 OPERATOR(pg_catalog.=) "id"')
    assert is_recursive("with recursive t as (select 1) select 1")
    assert not is_recursive("with t as (select 1) select 1")
    assert begins("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert begins("start transaction")
    assert not begins("beginning")


def test_a_list_in_an_array_is_one_of_in() -> None:
    text = "select a from t where id = ANY(ARRAY[$1 /*, ... */]) and a = any (array[$2, $3])"
    assert without_values(text) == "select a from t where id IN ($1 /*, ... */) and a IN ($2, $3)"
    assert without_values("select a where $1 = any(array[a, b])").endswith("any(array[a, b])")


def test_the_rows_of_values() -> None:
    text = "values ($1, f($2, g($3))) , ( array[$4, $5], $6) on conflict (id) do nothing"
    assert rows_of_values(text) == [[[1], []], [[], [6]]]


def test_values_are_found_however_they_are_written() -> None:
    values = ["hush-1", "orders", "1234", "ann@x"]
    assert values_in("a hush-1 b", values, ["orders"]) == ["hush-1"]
    assert values_in("orders 1234", values, ["Orders"]) == []
    assert values_in(b"ann@x".hex(), values, []) == ["ann@x"]
    assert values_in("x YW5uQHg= x", values, []) == ["ann@x"]


@pytest.mark.parametrize(("others", "together"), [(0.0, False), (1000.0, True)])
def test_equal_counts_stay_apart_where_as_many_transactions_ended(
    others: float, *, together: bool
) -> None:
    calls = {"a": 1000.0, "b": 999.0}
    found = kinds_of(calls, Seen(1.0, []), begins=2000.0, ended=2000.0, others=others)
    assert len(found) == (1 if together else 2)


def test_statements_with_several_numbers_of_rows_are_evened_together() -> None:
    def inserted(rows: int) -> Statement:
        values = ", ".join(f"(${number})" for number in range(1, rows + 1))
        return Statement(f"insert into t (id) values {values}", (), 1.0, 1.0, 1.0, 1.0)

    statements = {
        "one": inserted(1),
        "two": inserted(2),
        "look": Statement("select 1", (), *[1.0] * 4),
    }
    executed = _executed({"one": 75.0, "two": 24.0, "look": 101.0}, statements)
    assert executed["one"] + executed["two"] == pytest.approx(executed["look"])
    assert executed["one"] / executed["two"] == pytest.approx(75 / 24)
