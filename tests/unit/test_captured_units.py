"""Units of work without a block, from sessions whose statements follow each other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.capture._order import possible_order
from pgdyno.capture._transactions import Seen
from pgdyno.capture._units import Run, Unit, from_beginning, together_but_for_rows, units_of
from pgdyno.capture._whole import all_kinds
from pgdyno.clone.capture_file import Column, Parameter, Reference, Statement, Table, Use
from pgdyno.clone.keys import Keys

_LOOK_US = 1_000
_SECONDS = 60.0
_ID = Column("id", "bigint", "int8", default="sequence")
_LOOKS_MIN, _SEEN_MIN = 4, 20
"""Looks in the time of a unit, and at each of its statements, from which on the order is known."""


def _sampled(turns: dict[int, list[str]], statement_us: int, seed: int = 1) -> list[Run]:
    """Return what looks see of sessions that execute their statements in turn, for some bursts."""
    drawn = random.Random(seed)
    runs: list[Run] = []
    for burst in range(12):
        began_us = burst * 5_000_000
        for pid, turn in turns.items():
            at_us, place = began_us + drawn.randrange(statement_us), drawn.randrange(len(turn))
            seen: dict[int, str] = {}
            next_us = began_us
            while at_us < began_us + 50_000:
                ends_us = at_us + round(statement_us * drawn.uniform(0.5, 1.5))
                if ends_us > next_us:
                    seen[at_us] = turn[place % len(turn)]
                    next_us = ends_us - ends_us % _LOOK_US + _LOOK_US
                at_us, place = ends_us, place + 1
            runs.append((pid, sorted(seen.items())))
    return runs


def _of_all(turn: Iterable[str]) -> dict[int, list[str]]:
    return {pid: [*turn] for pid in range(4)}


@settings(max_examples=20)
@given(st.integers(2, 30), st.sampled_from((300, 900, 2_500)), st.integers(0, 99))
def test_a_unit_has_its_statements_in_order(length: int, statement_us: int, seed: int) -> None:
    turn = [f"s{number:02d}" for number in range(length)]
    runs = _sampled(_of_all(turn), statement_us, seed)
    times = round(4 * _SECONDS * 1e6 / (length * statement_us))
    drawn = random.Random(seed)
    calls = {each: times + drawn.randrange(-2, 3) for each in turn}
    (found,) = units_of(calls, runs, _SECONDS)
    seen = Counter(each for _, statements in runs for _, each in statements)
    assert {*found.statements} == {*seen}
    looks_of_turn = length * statement_us / _LOOK_US
    if looks_of_turn > _LOOKS_MIN and min(seen.values()) > _SEEN_MIN:
        places = [turn.index(each) for each in found.statements]
        pairs = pairwise([*places, places[0]])
        # Two neighbours that are exchanged break the circle at three places.
        assert sum((one + 1) % length != other for one, other in pairs) <= 3 + length // 4


def test_statements_of_a_part_of_the_units_belong_to_them() -> None:
    runs = _sampled(_of_all("abc"), 900)
    found = units_of({"a": 9000.0, "b": 9001.0, "c": 2700.0}, runs, _SECONDS)
    assert [({*each.statements}, each.times) for each in found] == [({"a", "b", "c"}, 9001.0)]


def test_statements_of_other_sessions_do_not_belong_to_a_unit() -> None:
    runs = _sampled({1: ["a", "b"], 2: ["a", "b"], 3: ["c"], 4: ["c"]}, 900)
    found = units_of({"a": 9000.0, "b": 9001.0, "c": 2700.0}, runs, _SECONDS)
    assert [{*each.statements} for each in found] == [{"a", "b"}]


@pytest.mark.parametrize("calls", [(9000.0, 8700.0), (60.0, 60.0)])
def test_independent_statements_and_few_calls_make_no_unit(calls: tuple[float, float]) -> None:
    runs = _sampled(_of_all("ab"), 900)
    assert units_of(dict(zip("ab", calls, strict=True)), runs, _SECONDS) == []


def test_without_looks_there_is_no_unit() -> None:
    assert units_of({"a": 9000.0, "b": 9000.0}, [], _SECONDS) == []


def test_a_unit_is_a_kind_without_a_block() -> None:
    runs = _sampled(_of_all("ab"), 900)
    found = all_kinds({"a": 9000.0, "b": 9001.0}, [], Seen(_SECONDS, [], runs), begins=0)
    assert [({*each.statements}, each.transactions, each.block) for each in found] == [
        ({"a", "b"}, 9001.0, False)
    ]
    assert units_of({"a": 9000.0, "b": 9001.0}, runs, _SECONDS)[0] == Unit(("a", "b"), 9001.0)


def test_a_unit_begins_with_the_row_that_others_name() -> None:
    tables = (
        Table("public", "t", 9, 1, (_ID, Column("of", "bigint", "int8")), (("id",),), True),
        Table("public", "u", 9, 1, (Column("t_id", "bigint", "int8"),), (("t_id",),), True),
    )

    def statement(use: Use, table: str, column: str) -> Statement:
        return Statement("select", (Parameter("bigint", use, table, column),), 1, 1, 1, 0)

    looks = statement("compared", "public.t", "of")
    makes = statement("inserted", "public.t", "of")
    names = statement("inserted", "public.u", "t_id")
    assert from_beginning([names, makes, looks], Keys(tables))[0] == 1
    assert from_beginning([makes, looks, names], Keys(tables))[0] == 0
    assert from_beginning([looks, looks], Keys(tables))[0] == 0
    returns = replace(looks, text="delete from t where of = $1 returning id")
    assert from_beginning([looks, names, returns], Keys(tables))[0] == 2
    ends = statement("compared", "public.t", "id")
    assert from_beginning([ends, statement("inserted", "public.t", "id")], Keys(tables))[0] == 1


def test_statements_with_other_numbers_of_rows_are_at_one_place() -> None:
    def statement(text: str) -> Statement:
        return Statement(text, (), 1, 1, 1, 0)

    texts = ("values ($1)", "select 1", "values ($1), ($2)", "values ($1), ($2), ($3)", "select 2")
    assert together_but_for_rows([statement(each) for each in texts]) == [1, 0, 2, 3, 4]
    # One that was seen elsewhere by chance.
    texts = ("b ($1)", "a ($1)", "a ($1), ($2)", "b ($1), ($2)", "b ($1), ($2), ($3)")
    assert together_but_for_rows([statement(each) for each in texts]) == [1, 2, 0, 3, 4]


def test_a_unit_looks_for_a_value_before_it_inserts_it() -> None:
    columns = (_ID, Column("of", "bigint", "int8"))
    tables = (Table("public", "t", 9, 1, columns, (("id",),), True),)

    def statement(*places: tuple[Use, str]) -> Statement:
        parameters = (Parameter("bigint", use, "public.t", column) for use, column in places)
        return Statement("select", tuple(parameters), 1, 1, 1, 0)

    makes, looks = statement(("inserted", "of")), statement(("compared", "of"))
    names = statement(("compared", "id"))
    assert [*from_beginning([makes, names, looks], Keys(tables))] == [2, 0, 1]


def test_a_key_that_the_server_makes_is_not_known_earlier() -> None:
    kind = Column("kind", "integer", "int4", not_null=True)
    tables = (
        Table("public", "t", 9, 1, (_ID, kind), (("id",),), True),
        Table("public", "kinds", 9, 1, (kind,), (("kind",),), True),
    )

    def statement(text: str, use: Use, table: str, column: str) -> Statement:
        return Statement(text, (Parameter("bigint", use, table, column),), 1, 1, 1, 0)

    ends = statement("select kind from t where id = $1", "compared", "public.t", "id")
    looks = statement("select from kinds", "compared", "public.kinds", "kind")
    makes = statement("insert into t (kind) values ($1)", "inserted", "public.t", "kind")
    assert [*from_beginning([ends, looks, looks, makes], Keys(tables))] == [1, 2, 3, 0]


def test_a_statement_of_a_loop_moves_to_where_others_name_its_row() -> None:
    of = Column("of", "bigint", "int8", not_null=True)
    kind = Column("kind", "integer", "int4")
    to_t = (Reference(("of",), "public.t", ("id",)),)
    tables = (
        Table("public", "t", 9, 1, (_ID,), (("id",),), True),
        Table("public", "jobs", 9, 1, (_ID, of, kind), (("id",),), True, references=to_t),
    )

    def statement(text: str, table: str, column: str) -> Statement:
        return Statement(text, (Parameter("bigint", "compared", table, column),), 1, 1, 1, 0)

    sets = statement("update jobs set done = true where id = $1 returning of", "public.jobs", "id")
    takes = statement("delete from jobs where kind = $1 returning id", "public.jobs", "kind")
    job = statement("select from jobs where id = $1", "public.jobs", "id")
    parent = statement("select from t where id = $1", "public.t", "id")
    seen = [sets, takes, job, parent]
    assert [*from_beginning(seen, Keys(tables), is_loop=True)] == [1, 0, 2, 3]
    assert [*from_beginning(seen, Keys(tables))] == [1, 2, 3, 0]


def test_rows_are_copied_before_they_are_deleted() -> None:
    tables = [Table("public", name, 9, 1, (_ID,), (("id",),), True) for name in ("t", "old")]

    def statement(text: str) -> Statement:
        parameter = Parameter("bigint", "compared", "public.t", "id")
        return Statement(text, (parameter,), 1, 1, 1, 0)

    gone = statement("delete from t where id = $1")
    copied = statement("insert into old (id) select id from t where id = $1")
    looked_for = statement("select from t where id = $1")
    assert possible_order([looked_for, gone, copied], Keys(tables)) == [0, 2, 1]
    assert possible_order([gone, looked_for], Keys(tables)) == [0, 1]


def test_a_row_is_there_before_others_refer_to_it() -> None:
    of = (Column("of", "bigint", "int8"),)
    to_t = (Reference(("of",), "public.t", ("id",)),)
    tables = (
        Table("public", "t", 9, 1, (_ID,), (("id",),), True),
        Table("public", "Parts", 9, 1, of, references=to_t),
    )

    def order(*texts: str) -> list[int]:
        statements = [Statement(each, (), 1.0, 1.0, 1.0, 0.0) for each in texts]
        return possible_order(statements, Keys(tables))

    looks, adds = "select 1", "insert into t (id) values ($1)"
    part, gone = 'insert into public."Parts" values ($1)', 'DELETE FROM "Parts" WHERE of = $1'
    assert order(part, looks, adds) == [2, 0, 1]
    assert order(part, looks, gone, adds) == [2, 3, 0, 1]
    assert order(looks, gone, adds, part) == [0, 1, 2, 3]
