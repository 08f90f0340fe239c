"""Values of parameters in the scripts of a capture: keys that are there, new ones, ranges, lists."""

from __future__ import annotations

import re
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno._engine import MadeRows, check_script
from pgdyno.clone._scripts import Part, script_of
from pgdyno.clone.capture_file import (
    SHORTENED,
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
from pgdyno.clone.outputs import outputs_of
from pgdyno.clone.schema import rows_sql

_ID, _PLACED = Column("id", "bigint", "int8"), Column("placed", "date", "date", distinct=100)
_KIND = Column("kind", "integer", "int4", distinct=5)


def _table(**changed: Any) -> Table:
    columns, keys = (_ID, _PLACED, _KIND), (("id",),)
    table = Table("public", "t", 10_000, 90, columns, keys=keys, has_primary=True)
    return replace(table, **changed)


def _parameter(use: Use, column: str = "id", type_: str = "bigint") -> Parameter:
    return Parameter(type_, use, "public.t", column)


def _statement(text: str, *parameters: Parameter, rows: float = 1.0) -> Statement:
    return Statement(text, parameters, 10.0, rows, 0.1, 0.0)


def _script(
    *statements: Statement, table: Table | None = None, times: float = 1.0, block: bool = False
) -> str:
    table = table or _table()
    steps = tuple(Step(place, times) for place in range(len(statements)))
    transaction = Transaction(10.0, steps, block)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, (table,), statements, (transaction,), ()
    )
    text = script_of(capture, [Part(transaction)], Keys(capture.tables))
    check_script(text, "script.sql")
    return text


def test_a_range_has_as_many_rows_as_the_statement_finds() -> None:
    least, most = _parameter("least"), _parameter("most")
    found = _script(
        _statement("select * from t where id between $1 and $2", least, most, rows=20),
        _statement("select * from t where id < $1 and id >= $2", most, least, rows=20),
        _statement("select count(*) from t where id > $1", least),
        _statement("select * from t where id > $1 limit $2", least, Parameter("bigint", "limit")),
        _statement("select * from t where placed >= $1", _parameter("least", "placed"), rows=300),
    )
    assert found == snapshot("""\
\\set t_id_bound random(1, 9981)
\\set bound :t_id_bound + 19
select * from t where id between :t_id_bound and :bound;
\\set t_id_bound_2 random(20, 10000)
\\set bound_2 :t_id_bound_2 + 1
\\set bound_3 :t_id_bound_2 - 19
select * from t where id < :bound_2 and id >= :bound_3;
\\set t_id_bound_3 9981
\\set bound_4 :t_id_bound_3 - 1
select count(*) from t where id > :bound_4;
\\set t_id_bound_4 random(1, 10000)
\\set bound_5 :t_id_bound_4 - 1
select * from t where id > :bound_5 limit 1;
\\set t_placed_bound 98
\\set bound_6 timestamp(1735689600 + mod(:t_placed_bound, 200000) * 86400)
select * from t where placed >= :bound_6;
""")


def test_a_range_is_wider_where_other_conditions_leave_a_part_of_it() -> None:
    of_kind = _parameter("compared", "kind", "integer")
    least, most = _parameter("least"), _parameter("most")
    beside = _statement("select * from t where kind = $1 and id >= $2", of_kind, least, rows=3)
    assert "\\set t_id_bound 9986\n" in _script(beside)
    # Of five kinds the list has two.
    text = f"select * from t where kind in ($1 {SHORTENED}) and id >= $2"
    assert "\\set t_id_bound 9991\n" in _script(_statement(text, of_kind, least, rows=4))
    some = _statement("select * from t where $1 < id and id <= $2", least, most, rows=0.4)
    assert _script(some) == snapshot("""\
\\set number 0 + case when random(1, 1000) <= 400 then 1 else 0 end
\\set t_id_bound random(1, (10001 - :number))
\\set bound :t_id_bound - 1
\\set bound_2 :t_id_bound + (:number - 1)
select * from t where :bound < id and id <= :bound_2;
""")


def test_a_range_of_all_rows_has_new_ones_too() -> None:
    both = _parameter("compared", "kind", "integer"), _parameter("most", "placed", "date")
    delete = _statement("delete from t where kind = $1 and placed <= $2", *both, rows=2000)
    assert "\\set t_placed_bound 200000\n" in _script(delete)
    assert "\\set t_placed_bound 50\n" in _script(replace(delete, rows=1000))


def test_a_range_of_groups_has_more_rows_than_these() -> None:
    least = _parameter("least")
    grouped = _statement("select kind, count(*) from t where id > $1 group by kind", least)
    assert "\\set t_id_bound 9981\n" in _script(grouped)
    # Each of its own values is a group.
    own = _statement("select t.id, count(*) from t where id > $1 group by t.id", least)
    assert "\\set t_id_bound 10000\n" in _script(own)


@pytest.mark.parametrize(("rows", "limit"), [(20.0, 20), (3.6, 16), (0.3, 4)])
def test_a_limit_leaves_the_rows_to_a_range_that_decides_them(rows: float, limit: int) -> None:
    uses = _parameter("least"), _parameter("most"), Parameter("bigint", "limit")
    text = "select * from t where id between $1 and $2 limit $3"
    assert f"limit {limit};" in _script(_statement(text, *uses, rows=rows))
    assert f"limit {max(1, round(rows))};" in _script(
        _statement("select * from t where kind = $1 limit $2", uses[0], uses[2], rows=rows)
    )


@pytest.mark.parametrize(("distinct", "limit"), [(4000, 4), (10, 3)])
def test_a_limit_leaves_the_rows_to_values_that_decide_them(distinct: int, limit: int) -> None:
    columns = _ID, replace(_KIND, distinct=distinct)
    uses = _parameter("compared", "kind"), Parameter("bigint", "limit")
    found = _statement("select * from t where kind = $1 limit $2", *uses, rows=3.3)
    assert f"limit {limit};" in _script(found, table=_table(rows=12_000, columns=columns))


def test_rows_are_named_that_others_refer_to() -> None:
    customers = Table("public", "c", 100, 9, (_ID,), keys=(("id",),))
    of = Column("c_id", "bigint", "int8", distinct=20)
    orders = Table("public", "o", 500, 9, (of,))
    named = Parameter("bigint", "compared", "public.c", "id")
    found = Parameter("bigint", "compared", "public.o", "c_id")
    statements = (
        _statement("select * from c where id = $1", named),
        _statement("select * from o where c_id = $1", found, rows=25),
    )
    transaction = Transaction(10.0, (Step(0), Step(1)), True)
    source, tables = Source(18, 60.0, 10.0, 2, 1.0), (customers, orders)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    script = script_of(capture, [Part(transaction)], Keys(tables))
    assert script.splitlines()[1] == "\\set c_id_key random(1, 20)"


def test_new_keys_follow_each_other_where_the_rows_do() -> None:
    insert = _statement("insert into t (id) values ($1)", _parameter("inserted"))
    assert _script(insert) == snapshot("""\
\\set t_id_key 10001 + (:began - 1735689600) * 16777216 + :txn * 4000 + :client_id
insert into t (id) values (:t_id_key);
""")
    assert _script(insert, times=3.0) == snapshot("""\
\\for round 3
\\set t_id_key 10001 + (:began - 1735689600) * 16777216 + (:txn * 3 + :round - 1) * 4000 + :client_id
insert into t (id) values (:t_id_key);
\\endfor
""")
    two = _parameter("inserted"), _parameter("inserted")
    assert _script(_statement("insert into t (id) values ($1), ($2)", *two)) == snapshot("""\
\\set t_id_key 10001 + (:began - 1735689600) * 16777216 + (:txn * 2 + 0) * 4000 + :client_id
\\set t_id_key_2 10001 + (:began - 1735689600) * 16777216 + (:txn * 2 + 1) * 4000 + :client_id
insert into t (id) values (:t_id_key), (:t_id_key_2);
""")
    columns = (Column("id", "bigint", "int8", correlation=0.1),)
    assert _script(insert, table=_table(columns=columns)) == snapshot("""\
\\set t_id_key random(10001, 9007199254740992) * (2 * random(0, 1) - 1)
insert into t (id) values (:t_id_key);
""")


@pytest.mark.parametrize(
    ("conflict", "drawn"),
    [
        ("on conflict do nothing", "case when random(1, 1000) <= 250 then"),
        ("on conflict (id) do update set kind = 1", "random(1, 10000)"),
    ],
)
def test_rows_that_are_there_already_are_inserted_again(conflict: str, drawn: str) -> None:
    text = f"insert into t (id) values ($1) {conflict}"
    found = _script(_statement(text, _parameter("inserted"), rows=0.25))
    assert found.startswith(f"\\set t_id_key {drawn}")


def test_statements_of_a_transaction_name_the_same_list() -> None:
    listed = _parameter("compared", type_="bigint[]")
    found = _script(
        _statement("select * from t where id = any ($1)", listed, rows=12),
        _statement("select count(*) from t where id = any ($1)", listed, rows=1),
    )
    assert found == snapshot("""\
\\array several 12 random(1, 10000)
select * from t where id = any (:several);
select count(*) from t where id = any (:several);
""")


@pytest.mark.parametrize(("pages", "lines"), [(9.0, "\\array several_2 3"), (20.0, "select count")])
def test_a_list_of_a_statement_that_counts_is_as_long_as_its_pages_tell(
    pages: float, lines: str
) -> None:
    listed = _parameter("compared", type_="bigint[]")
    finds = _statement("select * from t where id = any ($1)", listed, rows=12)
    counts = _statement("select count(*) from t where id = any ($1)", listed)
    script = _script(replace(finds, pages=36.0), replace(counts, pages=pages))
    assert script.splitlines()[2].startswith(lines)


def test_a_loop_reads_other_rows_each_time() -> None:
    limit = Parameter("bigint", "limit")
    named = _statement("select * from t where id = $1 limit $2", _parameter("compared"), limit)
    again = _statement("select kind from t where id = $1", _parameter("compared"))
    both = _parameter("compared"), _parameter("compared", "kind", "integer")
    within = _statement("select placed from t where id = $1 and kind = $2", *both)
    added = _statement("insert into t (id) values ($1)", _parameter("inserted"))

    def script(*statements: Statement, times: float) -> str:
        steps = [Step(place, times if place else 1.0) for place in range(len(statements))]
        transaction, source = Transaction(10.0, tuple(steps)), Source(18, 60.0, 10.0, 2, 1.0)
        tables = (_table(),)
        capture = Capture(
            "pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ()
        )
        return script_of(capture, [Part(transaction)], Keys(tables))

    other = "\\set t_id_key_2 random((:round - 1) * 10000 / 4, :round * 10000 / 4 - 1) + 1"
    assert f"{other}\nselect kind from t where id = :t_id_key_2;" in script(named, again, times=4)
    assert "select kind from t where id = :t_id_key;" in script(named, again, times=1)
    # What the transaction has added, and a row whose other values differ, are the same.
    assert "select kind from t where id = :t_id_key;" in script(added, again, times=4)
    assert "where id = :t_id_key and kind" in script(named, within, times=4)


def test_a_list_has_the_rows_that_were_inserted_before() -> None:
    two = _parameter("inserted"), _parameter("inserted")
    listed = _parameter("compared", type_="bigint[]")
    found = _script(
        _statement("insert into t (id) values ($1), ($2)", *two, rows=2),
        _statement("select * from t where id = any ($1)", listed, rows=2),
    )
    assert "case when :row = 0 then :t_id_key when :row = 1 then :t_id_key_2 end" in found


def test_a_list_has_as_many_values_as_rows_are_found_on_average() -> None:
    three = [_parameter("inserted")] * 3
    listed = _statement(
        "select * from t where id = any ($1)",
        _parameter("compared", type_="bigint[]"),
        rows=2.5,
    )
    found = _script(_statement("insert into t (id) values ($1), ($2), ($3)", *three), listed)
    assert "\\set number 2 + case when random(1, 1000) <= 500 then 1 else 0 end" in found
    assert "\\array several :number case when :row = 0 then :t_id_key" in found


def test_of_rows_that_are_inserted_where_they_are_missing_the_last_ones_are_new() -> None:
    text = "insert into t (id) values ($1), ($2), ($3) on conflict do nothing"
    found = _script(_statement(text, *[_parameter("inserted")] * 3, rows=1.5)).splitlines()
    assert found[0] == "\\set t_id_key random(1, 10000)"
    assert found[1].startswith("\\set t_id_key_2 case when random(1, 1000) <= 500 then 10001 + ")
    assert found[2].startswith("\\set t_id_key_3 10001 + ")


def test_statements_with_more_rows_have_those_of_the_ones_with_fewer() -> None:
    """Two new rows of three and one more of four, in whatever order they are written."""
    one = _parameter("inserted")
    three = "insert into t (id) values ($1), ($2), ($3) on conflict do nothing"
    four = "insert into t (id) values ($1), ($2), ($3), ($4) on conflict do nothing"
    statements = (_statement(four, *[one] * 4, rows=2.5), _statement(three, *[one] * 3, rows=2.0))
    transaction = Transaction(10.0, (Step(0, 0.4), Step(1, 0.6)), True)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    tables = (_table(),)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    text = script_of(capture, [Part(transaction)], Keys(tables))
    check_script(text, "script.sql")
    lines = text.splitlines()
    assert lines[1] == "\\set t_id_key random(1, 10000)"
    for number in (2, 3):
        assert lines[number].startswith(f"\\set t_id_key_{number} 10001 + ")
    assert lines[4].startswith("\\set t_id_key_4 case when random(1, 1000) <= 500 then 10001 + ")
    assert [each for each in lines if each.startswith("\\if")] == [
        "\\if :chance > 600 and :chance <= 1000",
        "\\if :chance <= 600",
    ]


@pytest.mark.parametrize("skew", [None, 0.0, 0.7, 1.2])
def test_rows_are_updated_as_unevenly_as_those_of_the_source(skew: float | None) -> None:
    read = _statement("select * from t where id = $1 for update", _parameter("compared"))
    changed = _parameter("set", "kind", "integer"), _parameter("compared")
    update = _statement("update t set kind = $1 where id = $2", *changed)
    found = _script(read, update, table=_table(update_skew=skew), block=True)
    drawn = found.splitlines()[1]
    assert ("permute" in drawn) == bool(skew)
    assert found.count("\\set t_id_key") == 1


def test_a_list_that_the_server_has_shortened_has_as_many_values_as_rows() -> None:
    by_key = _statement(
        f"select * from t where id in ($1 {SHORTENED})", _parameter("compared"), rows=3
    )
    assert _script(by_key).endswith(
        "select * from t where id in (:t_id_key, :t_id_key_2, :t_id_key_3);\n"
    )
    kinds = _parameter("compared", "kind", "integer")
    by_kind = _statement(f"select * from t where kind in ($1 {SHORTENED})", kinds, rows=4000)
    assert "kind in (:t_kind_key, :t_kind_key_2)" in _script(by_kind)


def test_a_shortened_list_has_several_values() -> None:
    listed = f"select * from t where id in ($1 {SHORTENED}) and name = any(array[$2 {SHORTENED}])"
    found = _script(_statement(listed, _parameter("compared"), Parameter("text"), rows=0.0))
    assert "id in (:t_id_key, :t_id_key_2) and name = any(array[:value, :value_2])" in found


def test_rows_that_one_statement_updates_are_others() -> None:
    id_, kind = _parameter("inserted"), _parameter("inserted", "kind")
    text = "insert into t (id, kind) values ($1, $2), ($3, $4) on conflict (id, kind) do update"
    found = _script(
        _statement(f"{text} set placed = now()", id_, kind, id_, kind, rows=2),
        table=_table(keys=(("id", "kind"),)),
    )
    assert found == snapshot("""\
\\set t_id_key random(1, 100)
\\set t_kind_key random(1, 100)
\\set t_id_key_2 mod(:t_id_key + 7918, 100) + 1
\\set t_kind_key_2 mod(:t_kind_key + 7918, 100) + 1
insert into t (id, kind) values (:t_id_key, :t_kind_key), (:t_id_key_2, :t_kind_key_2) on conflict (id, kind) do update set placed = now();
""")


def test_a_row_that_the_source_did_not_find_is_not_there() -> None:
    def script(rows: float, text: str = "select * from t where id = $1") -> str:
        return _script(_statement(text, _parameter("compared"), rows=rows))

    assert script(0.0).startswith("\\set t_id_key random(10001, ")
    assert script(0.25).startswith(
        "\\set t_id_key case when random(1, 1000) <= 750 then random(10001"
    )
    assert script(1.0).startswith("\\set t_id_key random(1, 10000)")
    joined = "select * from t join u on u.t = t.id where t.id = $1"
    assert script(0.0, joined).startswith("\\set t_id_key random(1, 10000)")


def test_a_row_that_is_never_found_is_not_the_one_that_was_named_before() -> None:
    there = _statement("select * from t where id = $1", _parameter("compared"))
    change = _statement(
        "update t set kind = $1 where id = $2",
        *(_parameter("set", "kind", "integer"), _parameter("compared")),
        rows=0.0,
    )
    assert "where id = :t_id_key_2;" in _script(there, change)
    assert "\\set t_id_key_2 random(10001, " in _script(there, change)
    assert "where id = :t_id_key;" in _script(there, replace(change, rows=0.1))


def test_a_flag_of_no_column_is_not_set() -> None:
    flag = _statement(
        "select * from t where id = $1 and not $2", *(_parameter("compared"), Parameter("boolean"))
    )
    assert "and not 'false';" in _script(flag)


def test_a_key_that_was_looked_for_in_vain_is_inserted() -> None:
    search = _statement("select * from t where id = $1", _parameter("compared"), rows=0.0)
    insert = _statement("insert into t (id) values ($1)", _parameter("inserted"))
    assert _script(search, insert).count("\\set t_id_key") == 1
    there = _statement("select * from t where id = $1", _parameter("compared"))
    assert _script(there, insert).count("\\set t_id_key") == 2
    changed = _statement("update t set id = $1", _parameter("set"))
    assert _script(changed).startswith("\\set t_id_key 10001 + ")


def test_a_row_beside_that_of_another_table_is_a_new_one() -> None:
    of = Column("event_id", "text", "text", width_bytes=45)
    events = Table("public", "events", 100, 9, (of,), keys=(("event_id",),))
    bodies = replace(events, name="bodies")

    def written(table: str) -> Statement:
        parameter = Parameter("text", "inserted", f"public.{table}", "event_id")
        return _statement(f"insert into {table} (event_id) values ($1)", parameter)

    statements = written("bodies"), written("events")
    transaction = Transaction(10.0, (Step(0), Step(1)), True)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    tables = (events, bodies)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    assert script_of(capture, [Part(transaction)], Keys(tables)) == snapshot("""\
begin;
\\set events_event_id_key random(101, 9007199254740992)
\\set events_event_id text_of(:events_event_id_key, 44)
insert into bodies (event_id) values (:events_event_id);
insert into events (event_id) values (:events_event_id);
commit;
""")


def test_rows_that_were_added_before_are_found_beside_a_new_one() -> None:
    id_ = Column("t_id", "bigint", "int8")
    queue = Table(
        "public", "queue", 20, 1, (id_,), likely=(Reference(("t_id",), "public.t", ("id",)),)
    )
    adds = _statement("insert into t (id) values ($1)", _parameter("inserted"))
    of_queue = Parameter("bigint", "compared", "public.queue", "t_id")
    ends = _statement("delete from queue where t_id = $1", of_queue, rows=4.0)
    looks = _statement("select from queue where t_id = $1", of_queue, rows=0.0)
    tables = (_table(), queue)
    transaction = Transaction(10.0, (Step(0), Step(1), Step(2)), True)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    statements = (adds, ends, looks)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    assert script_of(capture, [Part(transaction)], Keys(tables)) == snapshot("""\
begin;
\\set t_id_key 10001 + (:began - 1735689600) * 16777216 + :txn * 4000 + :client_id
insert into t (id) values (:t_id_key);
\\set t_id_key_2 random(1, 10000)
delete from queue where t_id = :t_id_key_2;
select from queue where t_id = :t_id_key;
commit;
""")


def test_a_statement_has_the_same_value_for_two_tables() -> None:
    to_t = (Reference(("t_id",), "public.t", ("id",)),)
    other = Table("public", "u", 90, 1, (Column("t_id", "bigint", "int8"),), references=to_t)
    both = _parameter("compared"), Parameter("bigint", "compared", "public.u", "t_id")
    joined = _statement("select from t, u where id = $1 and t_id = $2", *both)
    transaction = Transaction(10.0, (Step(0),))
    source, tables = Source(18, 60.0, 10.0, 2, 1.0), (_table(), other)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, (joined,), (transaction,), ())
    text = script_of(capture, [Part(transaction)], Keys(tables))
    assert "where id = :t_id_key and t_id = :t_id_key;" in text


def test_a_key_of_several_columns_is_that_of_a_row() -> None:
    both = _parameter("compared"), _parameter("compared", "kind", "integer")
    whole = _statement("select * from t where id = $1 and kind = $2", *both)
    first = _statement("select * from t where id = $1", both[0], rows=5.0)
    table = _table(keys=(("id", "kind"),), columns=(replace(_ID, distinct=2000), _KIND))
    assert _script(whole, table=table) == snapshot("""\
\\set t_row random(0, 9999)
\\set t_id_key mod(:t_row / 5, 2000) + 1
\\set t_kind_key mod(:t_row, 5) + 1
select * from t where id = :t_id_key and kind = :t_kind_key;
""")
    assert _script(first, whole, table=table) == snapshot("""\
\\set t_id_key random(1, 2000)
select * from t where id = :t_id_key;
\\set t_row (:t_id_key - 1) * 5 + random(0, 4)
\\set t_kind_key mod(:t_row, 5) + 1
select * from t where id = :t_id_key and kind = :t_kind_key;
""")
    update = _statement("update t set placed = now() where id = $1 and kind = $2", *both)
    assert "t_row permute(" in _script(update, table=replace(table, update_skew=1.2))


def test_a_key_of_several_columns_is_not_found_by_the_last_of_them() -> None:
    both = _parameter("compared"), _parameter("compared", "kind", "integer")
    seldom = _statement("select * from t where id = $1 and kind = $2", *both, rows=0.2)
    found = _script(seldom, table=_table(keys=(("id", "kind"),)))
    assert found == snapshot("""\
\\set t_row random(0, 9999)
\\set t_id_key mod(:t_row / 100, 100) + 1
\\set t_kind_key case when random(1, 1000) <= 800 then random(101, 2147483647) else mod(:t_row, 100) + 1 end
select * from t where id = :t_id_key and kind = :t_kind_key;
""")


def test_a_key_of_several_columns_is_never_found_although_it_was_named_before() -> None:
    both = _parameter("compared"), _parameter("compared", "kind", "integer")
    found = _statement("select * from t where id = $1 and kind = $2", *both)
    table = _table(keys=(("id", "kind"),))
    script = _script(found, replace(found, rows=0.0), table=table)
    assert "\\set t_kind_key_2 random(101, 2147483647)\n" in script
    assert "where id = :t_id_key and kind = :t_kind_key_2;" in script


def test_a_relation_is_a_sequence_of_the_clone() -> None:
    next_value = _statement("select nextval($1)", Parameter("regclass"))
    made = _table(columns=(replace(_ID, identity=True), _PLACED, _KIND))
    assert _script(next_value, table=made) == "select nextval('public.t_id_seq');\n"
    assert _script(next_value) == "select nextval(null);\n"


def test_values_that_most_rows_have_alone_grow_with_the_rows() -> None:
    placed = replace(_PLACED, type="timestamptz", base="timestamptz", correlation=1.0, distinct=-1)
    kind = replace(_KIND, distinct=-0.5)
    table = _table(columns=(_ID, placed, kind))
    written = _parameter("inserted", "placed"), _parameter("inserted", "kind")
    insert = _statement("insert into t (placed, kind) values ($1, $2)", *written)
    assert _script(insert, table=table) == snapshot("""\
\\set t_placed_key 10001 + :txn
\\set t_placed timestamp(1735689600 + :t_placed_key)
\\set t_kind_key case when random(1, 1000) <= 500 then random(5001, 2147483647) else random(1, 5000) end
insert into t (placed, kind) values (:t_placed, :t_kind_key);
""")
    assert "random(1, 100)" in _script(insert)


def test_texts_of_which_nothing_is_known_do_not_come_again() -> None:
    mail = Column("mail", "text", "text", width_bytes=20)
    number = Column("number", "integer", "int4")
    mood = Column("mood", "mood", "enum", labels=3)
    short = Column("short", "character(2)", "bpchar")
    word = Column("word", "text", "text", default="value")
    written = [_parameter("inserted", name) for name in ("mail", "number", "mood", "short", "word")]
    insert = _statement("insert into t values ($1, $2, $3, $4, $5)", *written)
    table = _table(columns=(_ID, mail, number, mood, short, word))
    assert _script(insert, table=table) == snapshot("""\
\\set t_mail_key random(10001, 9007199254740992)
\\set t_mail text_of(:t_mail_key, 19)
\\set t_number_key random(1, 10000)
\\set t_mood_key random(1, 3)
\\set t_mood text_of(:t_mood_key, 10)
\\set t_short_key random(1, 10000)
\\set t_short text_of(:t_short_key, 2)
\\set t_word_key random(1, 10000)
\\set t_word text_of(:t_word_key, 8)
insert into t values (:t_mail, :t_number_key, :t_mood, :t_short, :t_word);
""")
    few = replace(
        table, rows=5.0, columns=(_ID, mail, number, replace(mood, distinct=3.0), short, word)
    )
    assert "\\set t_mood_key random(1, 3)\n" in _script(insert, table=few)


def test_each_statement_writes_other_values() -> None:
    mail = Column("mail", "text", "text", width_bytes=20)
    written, looked_for = _parameter("inserted", "mail"), _parameter("compared", "mail")
    insert = _statement("insert into t (mail) values ($1)", written)
    found = _script(
        _statement("select from t where mail = $1", looked_for),
        insert,
        _statement(
            "update t set mail = $1 where id = $2",
            _parameter("set", "mail"),
            _parameter("compared"),
        ),
        _statement("select from t where mail = $1", looked_for),
        table=_table(columns=(_ID, mail)),
    )
    assert found == snapshot("""\
\\set t_mail_key random(1, 10000)
\\set t_mail text_of(:t_mail_key, 19)
select from t where mail = :t_mail;
insert into t (mail) values (:t_mail);
\\set t_mail_key_2 random(10001, 9007199254740992)
\\set t_mail_2 text_of(:t_mail_key_2, 19)
\\set t_id_key random(1, 10000)
update t set mail = :t_mail_2 where id = :t_id_key;
select from t where mail = :t_mail_2;
""")


def test_a_loop_has_the_mean_number_of_rounds() -> None:
    read = _statement("select * from t where id = $1", _parameter("compared"))
    assert _script(read, times=6.5) == snapshot("""\
\\set rounds 6 + case when random(1, 1000) <= 500 then 1 else 0 end
\\for round :rounds
\\set t_id_key random((:round - 1) * 10000 / :rounds, :round * 10000 / :rounds - 1) + 1
select * from t where id = :t_id_key;
\\endfor
""")
    near = _script(read, read, times=6.0)
    assert near.count("\\for") == 1


def test_rounds_name_rows_in_order_so_that_sessions_do_not_wait_for_each_other() -> None:
    both = _parameter("compared"), _parameter("compared", "kind")
    update = _statement("update t set placed = now() where id = $1 and kind = $2", *both)
    table = _table(keys=(("id", "kind"),), columns=(replace(_ID, distinct=2000), _PLACED, _KIND))
    row = "random((:round - 1) * 10000 / 3, :round * 10000 / 3 - 1)"
    assert f"\\set t_row {row}\n" in _script(update, table=table, times=3.0)
    few = _script(_statement("select from t where id = $1", both[0]), times=20_000.0)
    assert "\\set t_id_key (:round - 1) * 10000 / 20000 + 1\n" in few


def test_rounds_refer_to_rows_in_order_although_a_row_that_refers_comes_first() -> None:
    line = Table(
        "public",
        "lines",
        20,
        1,
        (Column("t_id", "bigint", "int8"), Column("number", "integer", "int4")),
        references=(Reference(("t_id",), "public.t", ("id",)),),
    )
    adds = _statement(
        "insert into lines (t_id) values ($1)",
        Parameter("bigint", "inserted", "public.lines", "t_id"),
    )
    update = _statement("update t set kind = kind + 1 where id = $1", _parameter("compared"))
    tables, statements = (_table(), line), (adds, update)
    transaction = Transaction(10.0, (Step(0, 3.0), Step(1, 3.0)))
    source = Source(18, 60.0, 10.0, 2, 1.0)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    assert script_of(capture, [Part(transaction)], Keys(tables)) == snapshot("""\
\\for round 3
\\set t_id_key random((:round - 1) * 10000 / 3, :round * 10000 / 3 - 1) + 1
insert into lines (t_id) values (:t_id_key);
update t set kind = kind + 1 where id = :t_id_key;
\\endfor
""")


def test_rows_are_updated_as_unevenly_if_a_part_of_their_key_is_named_before() -> None:
    id_, kind = _parameter("compared"), _parameter("compared", "kind")
    update = _statement("update t set placed = now() where id = $1 and kind = $2", id_, kind)
    columns = (replace(_ID, distinct=20), _PLACED, replace(_KIND, distinct=500))
    table = _table(keys=(("id", "kind"),), columns=columns, update_skew=1.2)
    first = _statement("select from t where id = $1", id_)
    one = "random_zipfian(1, 500, 1.2)"
    assert f"\\set t_row (:t_id_key - 1) * 500 + permute({one} - 1, 500)" in _script(
        first, update, table=table
    )
    last = _statement("select from t where kind = $1", kind)
    assert f"\\set t_kind_key permute({one} - 1, 500) + 1" in _script(
        first, last, update, table=table
    )
    rounds = _script(update, table=table, times=4.0)
    assert "(:round - 1) * 10000 / 4 + permute(random_zipfian(1, 2500, 1.2)" in rounds


def test_new_keys_follow_each_other_behind_the_first_column_of_a_key() -> None:
    columns = (replace(_ID, correlation=0.1), _PLACED, replace(_KIND, correlation=0.1))
    insert = _statement("insert into t (id) values ($1)", _parameter("inserted"))
    assert ":txn" in _script(insert, table=_table(keys=(("kind", "id"),), columns=columns))
    assert ":txn" not in _script(insert, table=_table(keys=(("id", "kind"),), columns=columns))


def test_a_column_has_the_same_value_in_all_queries_of_a_statement() -> None:
    three = [_parameter("compared"), _parameter("compared", "kind"), _parameter("compared")]
    within = "delete from t where id = $1 and kind = (select max(kind) from t where id = ($3))"
    assert _script(_statement(f"{within} or kind = $2", *three)).endswith("""\
delete from t where id = :t_id_key and kind = (select max(kind) from t where id = (:t_id_key)) \
or kind = :t_kind_key;
""")
    beside = _script(_statement("select from t where id = $1 or id = ($2)", *three[::2]))
    assert beside.endswith("select from t where id = :t_id_key or id = (:t_id_key_2);\n")


def test_what_is_added_to_a_bound_does_not_move_it() -> None:
    bounds = _parameter("least"), _parameter("most"), _parameter("added"), _parameter("added")
    read = "select * from t where id between $1::bigint - $3 and $2::bigint - $4"
    assert _script(_statement(read, *bounds, rows=20)).endswith("""\
select * from t where id between :t_id_bound::bigint - 0 and :bound::bigint - 0;
""")


def test_rows_that_a_statement_returns_are_those_that_later_ones_name() -> None:
    placed, id_ = _parameter("compared", "placed", "date"), _parameter("compared")
    oldest = _statement("select id as oldest, kind from t where placed = $1 order by id", placed)
    delete = _statement("delete from t where id = $1", id_)
    assert _script(oldest, delete) == snapshot("""\
\\set t_placed_key random(1, 100)
\\set t_placed timestamp(1735689600 + mod(:t_placed_key, 200000) * 86400)
\\set s0_oldest random(1, 10000)
select id as oldest, kind from t where placed = :t_placed order by id \\aset s0_
delete from t where id = :s0_oldest;
""")
    insert = _statement("insert into t (id) values ($1)", _parameter("inserted"))
    assert "aset" not in _script(oldest, delete, insert)
    known = _statement("select id, kind from t where id = $1", id_)
    assert "aset" not in _script(known, delete)


def test_rows_of_other_tables_belong_to_the_row_that_a_statement_returns() -> None:
    to_t = (Reference(("t_id",), "public.t", ("id",)),)
    id_, day = Column("t_id", "bigint", "int8", not_null=True), Column("day", "integer", "int4")
    queue = Table("public", "queue", 20, 1, (id_, day), likely=to_t)
    parts = Table("public", "parts", 90, 1, (id_,), likely=to_t)
    takes = _statement(
        "delete from queue where day = $1 returning t_id",
        Parameter("integer", "compared", "public.queue", "day"),
    )
    of_part = Parameter("bigint", "compared", "public.parts", "t_id")
    ends = _statement("update parts set done = now() where t_id = $1", of_part, rows=4.0)
    tables, statements = (_table(), queue, parts), (takes, ends)
    transaction = Transaction(10.0, (Step(0), Step(1)))
    source = Source(18, 60.0, 10.0, 2, 1.0)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    assert script_of(capture, [Part(transaction)], Keys(tables)) == snapshot("""\
\\set queue_day_key random(1, 20)
\\set s0_t_id random(1, 10000)
delete from queue where day = :queue_day_key returning t_id \\aset s0_
update parts set done = now() where t_id = :s0_t_id;
""")


@pytest.mark.parametrize(
    ("text", "returned"),
    [
        ("select t.id, max(a) as most from t", [("id", "id"), ("", "most")]),
        ("select coalesce(max(id), $1) as got from t", [("id", "got")]),
        (
            "with x as (delete from t where id in (select a from b) returning id)"
            " select id as old from x",
            [("id", "old")],
        ),
        ("update t set a = $1 where b = $2 returning id", [("id", "id")]),
        ("insert into t (a) select b from c", []),
        ("select id, count(*) from t", []),
        ('select id, b as "No. 1" from t', []),
    ],
)
def test_outputs_of_a_statement(text: str, returned: list[tuple[str, str]]) -> None:
    assert [(each.column, each.name) for each in outputs_of(text)] == returned


def test_rows_that_are_changed_as_they_were_found() -> None:
    listed, kind = _parameter("compared", type_="bigint[]"), _parameter("compared", "kind")
    below = _parameter("most", "kind", "integer")
    text = "select coalesce(array_agg(id order by id), '{}') as ids, array_agg(t.kind) as kinds"
    finds = _statement(f"{text} from t where id = any ($1) and kind < $2", listed, below)
    both = _parameter("compared"), kind
    text = "update t set kind = kind + 1 from (values ($1, $2), ($3, $4)) as v (id, kind)"
    changes = _statement(f"{text} where t.id = v.id and t.kind = v.kind", *both, *both, rows=2)
    named = _statement("select * from t where id = $1", _parameter("compared"))
    assert _script(finds, changes, named) == snapshot("""\
\\array several 10 random(1, 10000)
\\set bound 2147483647
select coalesce(array_agg(id order by id), '{}') as ids, array_agg(t.kind) as kinds from t where id = any (:several) and kind < :bound \\gset s0_
\\set t_id :s0_ids[1]
\\set t_kind :s0_kinds[1]
\\set t_id_2 :s0_ids[2]
\\set t_kind_2 :s0_kinds[2]
update t set kind = kind + 1 from (values (:t_id, :t_kind), (:t_id_2, :t_kind_2)) as v (id, kind) where t.id = v.id and t.kind = v.kind;
\\set t_id_key random(1, 10000)
select * from t where id = :t_id_key;
""")
    few = _statement("select * from t where id = any ($1)", listed, rows=1.5)
    assert "\\array several 2 random(1, 10000)" in _script(finds, few, changes)
    assert "\\array several :number random(1, 10000)" in _script(few, finds, changes)


@pytest.mark.parametrize(
    ("distinct", "drawn"),
    [
        pytest.param(
            200, "\\set t_kind_key random(1, 200)", id="few of the combinations are taken"
        ),
        pytest.param(-0.5, "\\set t_kind_key case when random(1, 1000) <= 500 then", id="it grows"),
        pytest.param(
            2, "\\set t_kind_key case when random(1, 1000) <= 760 then", id="some are taken"
        ),
    ],
)
def test_a_new_row_of_several_columns_is_another_combination(distinct: float, drawn: str) -> None:
    columns = (replace(_PLACED, distinct=8000), replace(_KIND, distinct=distinct))
    table = _table(columns=columns, keys=(("placed", "kind"),))
    text = "insert into t (placed, kind) values ($1, $2) on conflict (placed, kind) do update"
    parameters = (_parameter("inserted", "placed", "date"), _parameter("inserted", "kind"))
    statement = replace(_statement(text, *parameters), added=0.85)
    found = _script(statement, table=table).splitlines()
    assert any(each.startswith(drawn) for each in found)


def test_an_insert_that_updates_others_adds_as_many_rows() -> None:
    text = "insert into t (id) values ($1), ($2) on conflict (id) do update set kind = 1"
    both = _statement(text, _parameter("inserted"), _parameter("inserted"), rows=2)
    lines = _script(replace(both, added=0.3)).splitlines()
    assert lines[0] == "\\set t_id_key random(1, 10000)"
    assert lines[1].startswith("\\set t_id_key_2 case when random(1, 1000) <= 300 then 10001 + ")
    assert "10001" not in _script(both)


def test_rows_that_are_there_are_repeated_where_no_combination_is_known() -> None:
    one, other = (
        Table("public", name, 1000, 9, (_ID,), keys=(("id",),)) for name in ("one", "other")
    )
    columns = Column("one_id", "bigint", "int8"), Column("other_id", "bigint", "int8")
    pairs = Table("public", "p", 9000, 90, columns, keys=(("one_id", "other_id"),))
    row = [Parameter("bigint", "inserted", "public.p", each.name) for each in columns]
    text = "insert into p values ($1, $2), ($3, $4), ($5, $6), ($7, $8) on conflict do nothing"
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    statements, tables = (_statement(text, *row * 4, rows=2.1),), (one, other, pairs)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    script = script_of(capture, [Part(transaction)], Keys(tables))
    first, last = "(:one_id_key, :other_id_key)", "(:one_id_key_2, :other_id_key_2)"
    assert f"values {first}, {first}, {first}, {last} on" in script


def _with_rows(*counts: int, is_parsed: bool = True, shares: float = 0.25) -> str:
    """The script of an INSERT with these numbers of rows, each in a part of the transactions."""
    row = _parameter("inserted"), _parameter("inserted", "kind", "integer")
    places = [[f"(${2 * n + 1}, ${2 * n + 2})" for n in range(count)] for count in counts]
    texts = [f"insert into t (id, kind) values {', '.join(each)}" for each in places]
    statements = tuple(
        replace(_statement(text, *row * count, rows=count), is_parsed=is_parsed)
        for text, count in zip(texts, counts, strict=True)
    )
    steps = tuple(Step(place, shares) for place in range(len(counts)))
    transaction, source = Transaction(10.0, steps), Source(18, 60.0, 10.0, 2, 1.0)
    tables = (_table(),)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    script = script_of(capture, [Part(transaction)], Keys(tables))
    check_script(script, "script.sql")
    return script


def test_a_statement_that_is_not_prepared_has_any_of_its_numbers_of_rows() -> None:
    script = _with_rows(1, 3, 2)
    count = "\\set count case when :chance <= 250 then 1 when :chance <= 500 then 2 else 3 end"
    insert = "insert into t (id, kind) values :rows \\rows :count case"
    assert f"\\if :chance <= 750\n{count}\n{insert}" in script
    assert script.count("insert") == 1
    ids = "when :row <= 0 then :t_id_key when :row <= 1 then :t_id_key_2 else :t_id_key_3 end"
    assert f"\\rows :count case {ids}, case when :row <= 0 then :t_kind_key" in script
    # In all transactions.
    assert "\\if" not in _with_rows(1, 2, shares=0.5)
    both = _with_rows(2, 3, shares=1.0)
    assert [both.count(f"\\set count{each}") for each in (" 2", "_2 3")] == [1, 1]


def test_a_statement_that_is_prepared_has_one_number_of_rows() -> None:
    assert _with_rows(1, 3, 2, is_parsed=False).count("insert") == 3


@pytest.mark.parametrize("often", [0.9, 0.96])
def test_one_statement_in_place_of_another(often: float) -> None:
    id_, kind = _parameter("inserted"), _parameter("compared", "kind")
    statements = (
        _statement("insert into t (id) values ($1)", id_),
        _statement("select * from t where kind = $1", kind, rows=9),
        _statement("insert into t (id) values ($1), ($2)", id_, id_, rows=2),
        _statement("select id from t where kind = $1", kind, rows=9),
    )
    shares = (often, 0.3, 1 - often, 0.7)
    steps = tuple(Step(place, share) for place, share in enumerate(shares))
    transaction = Transaction(10.0, steps, True)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    tables = (_table(),)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    text = script_of(capture, [Part(transaction)], Keys(tables))
    check_script(text, "script.sql")
    assert [each for each in text.splitlines() if each.startswith("\\if")] == [
        f"\\if :chance <= {often * 1000:.0f}",
        "\\if :chance <= 300",
        f"\\if :chance > {often * 1000:.0f} and :chance <= 1000",
        "\\if :chance > 300 and :chance <= 1000",
    ]


def test_a_value_replaces_the_one_that_is_compared() -> None:
    text = "update t set kind = case when kind < $1 then $2 else kind end where id = $3"
    kind = _parameter("set", "kind")
    found = _script(_statement(text, kind, kind, _parameter("compared")))
    assert "when kind < :t_kind_key then :t_kind_key else" in found


_ROOM, _PERSON = Column("room_id", "bigint", "int8"), Column("person_id", "bigint", "int8")
_EVENT = Column("event_id", "bigint", "int8")
_ROOMS = Table("public", "rooms", 6, 1, (_ROOM,), keys=(("room_id",),), has_primary=True)
_PEOPLE = Table("public", "people", 12, 1, (_PERSON,), keys=(("person_id",),), has_primary=True)
_EVENTS = Table("public", "events", 90, 1, (_EVENT,), keys=(("event_id",),), has_primary=True)
_OF_EVENTS = Reference(("event_id",), "public.events", ("event_id",))
_TO_BOTH = (
    Reference(("room_id",), "public.rooms", ("room_id",)),
    Reference(("person_id",), "public.people", ("person_id",)),
)
_MEMBERS = Table(
    *("public", "members", 36, 1, (_ROOM, _PERSON, _EVENT)),
    keys=(("person_id", "room_id"), ("event_id",)),
    references=(*_TO_BOTH, _OF_EVENTS),
)
_READ = Table(
    *("public", "read", 10, 1, (_ROOM, _PERSON)),
    keys=(("room_id", "person_id"),),
    references=_TO_BOTH,
)
_CHAT = (_ROOMS, _PEOPLE, _EVENTS, _MEMBERS, _READ)


def _of_chat(*statements: Statement, more: tuple[Table, ...] = ()) -> str:
    steps = tuple(Step(place) for place in range(len(statements)))
    transaction = Transaction(10.0, steps)
    source = Source(18, 60.0, 10.0, 2, 1.0)
    tables = _CHAT + more
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    text = script_of(capture, [Part(transaction)], Keys(capture.tables))
    check_script(text, "script.sql")
    return text


def _both(table: str, use: Use) -> tuple[Parameter, ...]:
    return tuple(Parameter("bigint", use, table, each) for each in ("room_id", "person_id"))


def test_tables_have_the_same_pairs() -> None:
    keys = Keys(_CHAT)
    rooms, people = (
        [keys.of_row(table, each) for table in (_MEMBERS, _READ)] for each in (_ROOM, _PERSON)
    )
    assert rooms == ["mod(:row + :row / 12, 6) + 1"] * 2
    assert people == ["mod(:row, 12) + 1"] * 2


def test_keys_with_pairs_and_more_are_unique() -> None:
    """More rows than a pair and a device have together."""
    device, number = Column("device_id", "bigint", "int8"), Column("number", "bigint", "int8")
    devices = Table("public", "devices", 12, 1, (device,), keys=(("device_id",),))
    to_devices = Reference(("device_id",), "public.devices", ("device_id",))
    key = ("person_id", "device_id", "room_id", "number")
    sent = Table(
        *("public", "sent", 930, 9, (_PERSON, device, _ROOM, number)),
        keys=(key,),
        references=(*_TO_BOTH, to_devices),
    )
    (copy,) = rows_sql(sent, Keys((*_CHAT, devices, sent)))
    made = MadeRows(copy, "setup.sql", [], 0).piece(1 << 20)
    assert made is not None
    assert len({*made.splitlines()}) == 930


def test_a_pair_is_one_that_is_there() -> None:
    found = _of_chat(
        _statement(
            "select 1 from rooms where room_id = $1",
            Parameter("bigint", "compared", "public.rooms", "room_id"),
        ),
        _statement(
            "select 1 from members where person_id = $1 and room_id = $2",
            *_both("public.members", "compared")[::-1],
        ),
    )
    key = "mod(mod(:rooms_room_id_key - 1 - :turn + 6, 6) + 6 * random(0, 1), 12) + 1"
    assert found.splitlines()[2:4] == [
        "\\set turn random(0, 2)",
        f"\\set people_person_id_key {key}",
    ]


def test_a_pair_is_inserted_that_is_not_there() -> None:
    found = _of_chat(
        _statement(
            "insert into members (room_id, person_id) values ($1, $2)",
            *_both("public.members", "inserted"),
        )
    )
    assert found == snapshot("""\
\\set pair 36 + mod(abs(mod(hash(:random_seed + :client_id), 36)) + :txn, 36)
\\set rooms_room_id_key mod(:pair + :pair / 12, 6) + 1
\\set people_person_id_key mod(:pair, 12) + 1
insert into members (room_id, person_id) values (:rooms_room_id_key, :people_person_id_key);
""")


@pytest.mark.parametrize(("added", "most"), [(0.0, 9), (0.4, 35)])
def test_a_pair_may_be_new_where_the_source_adds_rows(added: float, most: int) -> None:
    upsert = _statement(
        "insert into read (room_id, person_id) values ($1, $2)"
        " on conflict (room_id, person_id) do update set room_id = excluded.room_id",
        *_both("public.read", "inserted"),
    )
    assert f"\\set pair random(0, {most})\n" in _of_chat(replace(upsert, added=added))


def test_a_new_pair_has_the_one_value_beside_it() -> None:
    kind = replace(_KIND, distinct=None)
    read = replace(_READ, columns=(*_READ.columns, kind), keys=(("room_id", "kind", "person_id"),))
    upsert = _statement(
        "insert into read (room_id, person_id, kind) values ($1, $2, $3)"
        " on conflict (room_id, kind, person_id) do update set room_id = excluded.room_id",
        *_both("public.read", "inserted"),
        Parameter("integer", "inserted", "public.read", "kind"),
    )
    tables = (*_CHAT[:-1], read)
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    statements = (replace(upsert, added=0.4),)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, (transaction,), ())
    found = script_of(capture, [Part(transaction)], Keys(tables))
    assert "\\set pair random(0, 35)\n" in found
    assert "\\set read_kind_key random(1, 1)\n" in found


def test_no_two_rows_refer_to_one_that_each_has_alone() -> None:
    """Each row has a part of the keys."""
    found = _of_chat(
        _statement(
            "insert into members (room_id, person_id, event_id) values ($1, $2, $3)"
            " on conflict (person_id, room_id) do update set event_id = excluded.event_id",
            *_both("public.members", "inserted"),
            Parameter("bigint", "inserted", "public.members", "event_id"),
        )
    )
    assert found[: found.index("insert")] == snapshot("""\
\\set pair random(0, 35)
\\set rooms_room_id_key mod(:pair + :pair / 12, 6) + 1
\\set people_person_id_key mod(:pair, 12) + 1
\\set events_event_id_key :pair + 36 * random(0, 1) + 1
""")


def test_keys_of_a_row_that_refer_to_the_same_one_have_its_key() -> None:
    """The names of a person in two forms, and that of another one."""
    columns = tuple(Column(each, "text", "text") for each in ("name", "full_name", "other"))
    persons = Table("public", "p", 40, 9, columns[:1], keys=(("name",),), has_primary=True)
    references = tuple(
        Reference((name,), "public.p", ("name",)) for name in ("name", "full_name", "other")
    )
    table = Table(
        "public",
        "t",
        40,
        9,
        columns,
        keys=(("name",), ("full_name",)),
        references=references,
    )
    names = ["name", "other", "full_name"] * 2
    statement = _statement(
        "insert into t (name, other, full_name) values ($1, $2, $3), ($4, $5, $6)"
        " on conflict (name) do update set other = excluded.other",
        *(Parameter("text", "inserted", "public.t", each) for each in names),
    )
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    tables = persons, table
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, tables, (statement,), (transaction,), ()
    )
    found = script_of(capture, [Part(transaction)], Keys(tables))
    (values,) = re.findall(r"values (.*) on", found)
    assert values == "(:p_name, :p_name_2, :p_name), (:p_name_3, :p_name_4, :p_name_3)"


def test_new_rows_that_refer_to_others_have_one_value_beside() -> None:
    of = Column("by", "text", "text", width_bytes=20)
    table = Table("public", "t", 3, 1, (_ROOM, of), (("room_id", "by"),), references=_TO_BOTH[:1])
    names = ("room_id", "by") * 2
    statement = _statement(
        "insert into t (room_id, by) values ($1, $2), ($3, $4)",
        *(Parameter("text", "inserted", "public.t", each) for each in names),
        rows=2.0,
    )
    tables = _ROOMS, table
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, tables, (statement,), (transaction,), ()
    )
    found = script_of(capture, [Part(transaction)], Keys(tables))
    assert "\\set t_by_key_2 :t_by_key\n" in found


def test_columns_that_refer_together_name_one_row() -> None:
    """A device, which is unique, and the person that has it."""
    device = Column("device_id", "bigint", "int8", distinct=-1)
    devices = Table(
        *("public", "devices", 24, 1, (_PERSON, device)),
        keys=(("person_id", "device_id"),),
        references=_TO_BOTH[1:],
    )
    names = ("person_id", "device_id")
    sent = Table(
        *("public", "sent", 90, 1, (_EVENT, _PERSON, device)),
        references=(Reference(names, "public.devices", names),),
    )
    tables = (_PEOPLE, devices, sent)
    keys = Keys(tables)
    assert [keys.of_row(devices, each) for each in devices.columns] == [
        "mod(:row, 12) + 1",
        ":row + 1",
    ]

    def names_set(*listed: str) -> list[str]:
        insert = _statement(
            f"insert into sent ({', '.join(listed)}) values ($1, $2)",
            *(Parameter("bigint", "inserted", "public.sent", each) for each in listed),
        )
        transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
        capture = Capture(
            "pgdyno capture", 1, "pgdyno", source, tables, (insert,), (transaction,), ()
        )
        text = script_of(capture, [Part(transaction)], keys)
        check_script(text, "script.sql")
        return text.splitlines()[:2]

    person, of_device = ":people_person_id_key", ":devices_device_id_key"
    assert names_set(*names) == [
        "\\set people_person_id_key random(1, 12)",
        f"\\set devices_device_id_key {person} + 12 * random(0, (24 - ({person})) / 12)",
    ]
    assert names_set(*names[::-1]) == [
        "\\set devices_device_id_key random(1, 24)",
        f"\\set people_person_id_key mod({of_device} - 1, 12) + 1",
    ]


def test_a_row_is_looked_for_in_the_smaller_table() -> None:
    found = _of_chat(
        _statement(
            "insert into read (room_id) values ((select max(room_id) from members"
            " where event_id = $1), (select 1 from events where event_id = $2))",
            *(
                Parameter("bigint", "compared", each, "event_id")
                for each in ("public.events", "public.members")
            ),
        )
    )
    assert found.splitlines()[0] == "\\set events_event_id_key random(1, 36)"


def test_a_row_is_written_that_a_smaller_table_has_too() -> None:
    """Of a table whose rows refer to fewer than that one has."""
    notes = Table("public", "notes", 20, 1, (_EVENT, _ROOM), references=(_OF_EVENTS,))
    found = _of_chat(
        _statement(
            "insert into notes (event_id, room_id) values ($1, (select room_id from members"
            " where event_id = $2))",
            Parameter("bigint", "inserted", "public.notes", "event_id"),
            Parameter("bigint", "compared", "public.members", "event_id"),
        ),
        more=(notes,),
    )
    assert found.splitlines()[0] == "\\set events_event_id_key random(1, 36)"


@pytest.mark.parametrize(("rows", "most"), [(1.0, 36), (0.4, 90)])
def test_a_row_is_named_that_a_later_statement_always_finds(rows: float, most: int) -> None:
    texts = "select * from events where event_id = $1", "select * from members where event_id = $1"
    tables = "public.events", "public.members"
    event, member = (
        _statement(text, Parameter("bigint", "compared", table, "event_id"))
        for text, table in zip(texts, tables, strict=True)
    )
    found = _of_chat(event, replace(member, rows=rows))
    assert found.splitlines()[0] == f"\\set events_event_id_key random(1, {most})"


def test_rows_of_an_empty_table_have_keys_of_those_that_they_refer_to() -> None:
    empty = Table("public", "t", 0, 0, (_ROOM, _PERSON), (("room_id", "person_id"),), True)
    taken = _statement(
        "delete from t where room_id = $1 and person_id = $2",
        *_both("public.t", "compared"),
    )
    table = replace(empty, references=_TO_BOTH[:1])
    transaction, source = Transaction(10.0, (Step(0),)), Source(18, 60.0, 10.0, 2, 1.0)
    tables = (_ROOMS, table)
    capture = Capture("pgdyno capture", 1, "pgdyno", source, tables, (taken,), (transaction,), ())
    found = script_of(capture, [Part(transaction)], Keys(tables))
    assert "\\set rooms_room_id_key random(1, 6)\n" in found


def test_a_query_with_a_limit_finds_the_rows_of_a_union() -> None:
    least, most = _parameter("least"), _parameter("most")
    text = (
        "select * from (select * from t where $1 < id and id <= $2) as a union all"
        " select * from (select * from t where id <= $3 order by id desc limit $4) as b"
    )
    found = _script(_statement(text, least, most, most, Parameter("bigint", "limit")))
    assert ":bound < id and id <= :bound_2" in found
    assert "\\set bound :t_id_bound - 1" in found
    assert "\\set bound_2 :t_id_bound + -1" in found


def test_a_statement_that_never_finds_rows_names_none() -> None:
    text = "select * from t where kind = $1"
    compared = _parameter("compared", "kind")
    found = _script(_statement(text, compared, rows=0.0), _statement(text, compared))
    assert "\\set t_kind_key random(6, 2147483647)" in found
    assert "\\set t_kind_key_2 random(1, 5)" in found


def test_a_flag_is_set_where_it_was_not() -> None:
    text = "update t set done = $1 where id = $2 and not t.done"
    table = _table(columns=(_ID, Column("done", "boolean", "bool")))
    found = _script(
        _statement(text, _parameter("set", "done"), _parameter("compared")), table=table
    )
    assert "\\set t_done mod(:t_done_key, 2) = 0" in found
    assert "\\set t_done_key 2" in found


@pytest.mark.parametrize(
    ("is_simple", "base", "named"), [(True, "text", 0), (True, "int8", 1), (False, "text", 1)]
)
def test_a_text_of_the_server_is_not_written_without_quotes(
    is_simple: bool, base: str, named: int
) -> None:
    mail = Column("mail", base, base, not_null=True)
    table = _table(columns=(_KIND, mail), keys=(("mail",),))
    statements = (
        _statement("select mail from t where kind = $1", _parameter("compared", "kind")),
        _statement("select kind from t where mail = $1", _parameter("compared", "mail")),
    )
    transaction = Transaction(10.0, (Step(0), Step(1)))
    source = Source(18, 60.0, 10.0, 2, 1.0, is_simple=is_simple)
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, (table,), statements, (transaction,), ()
    )
    found = script_of(capture, [Part(transaction)], Keys((table,)))
    assert found.count("\\aset s0_") == named


@pytest.mark.parametrize("correlation", [None, 0.8])
def test_a_value_that_only_grows_is_higher_each_time(correlation: float | None) -> None:
    text = (
        "insert into t (kind, id) values ($1, $2) on conflict (kind) do update"
        " set id = excluded.id where t.id < excluded.id"
    )
    columns = (replace(_ID, correlation=correlation), _KIND)
    table = _table(columns=columns, keys=(("kind",),))
    found = _script(
        _statement(text, _parameter("inserted", "kind"), _parameter("inserted")), table=table
    )
    assert "\\set t_id_key 10001 + (:began - 1735689600) * " in found


def test_rows_take_the_place_of_those_that_were_deleted() -> None:
    found = _of_chat(
        _statement(
            "delete from read where room_id = $1",
            Parameter("bigint", "compared", "public.read", "room_id"),
            rows=2,
        ),
        _statement(
            "insert into read (room_id, person_id) values ($1, $2), ($3, $4)",
            *_both("public.read", "inserted") * 2,
            rows=2,
        ),
    )
    assert found.splitlines()[-1].endswith(
        "values (:rooms_room_id_key, :people_person_id_key),"
        " (:rooms_room_id_key, :people_person_id_key_2);"
    )


def test_a_row_that_other_transactions_make_is_not_referred_to() -> None:
    """A tenth of the transactions inserts two rows, and a half refers to two."""
    to_t = Reference(("t_id",), "public.t", ("id",))
    child = Table(
        "public", "c", 10_000, 90, (Column("t_id", "bigint", "int8"),), references=(to_t,)
    )
    statements = [
        Statement(f"insert into {table} ({column}) values {values}", each, 10.0, count, 0.1, 0.0)
        for table, column in (("t", "id"), ("c", "t_id"))
        for count, values in ((1.0, "($1)"), (2.0, "($1), ($2)"))
        for each in [(Parameter("bigint", "inserted", f"public.{table}", column),) * int(count)]
    ]
    steps = tuple(Step(place, share) for place, share in enumerate((0.9, 0.1, 0.5, 0.5)))
    transaction, source = Transaction(10.0, steps, True), Source(18, 60.0, 10.0, 2, 1.0)
    tables = _table(), child
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, tables, tuple(statements), (transaction,), ()
    )
    lines = script_of(capture, [Part(transaction)], Keys(tables)).splitlines()
    assert "insert into t (id) values (:t_id_key), (:t_id_key_2);" in lines
    assert "insert into c (t_id) values (:t_id_key), (:t_id_key_3);" in lines
    assert "\\set t_id_key_3 random(1, 10000)" in lines
