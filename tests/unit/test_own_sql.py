"""SQL of the user's as a change: which texts can be one, how it reads, and what it may lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.dimension import title_of
from pgdyno.escaping import visible_line
from pgdyno.remedy import Circumstances, assess
from pgdyno.spec import Change
from pgdyno.spec.change import TITLE_LENGTH, first_word, title_of_sql, unfit_sql

INDEX = ("create index i on t (c)",)
CHANGE = Change(sql={"make": INDEX, "undo": ("drop index i",)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        (" ;; -- nothing\n/* at all */", "is empty"),
        ("\\d orders", "is a command of psql"),
        ("begin; create index i on t (c)", "begins or ends a transaction"),
        ("/* really */ COMMIT", "begins or ends a transaction"),
        ("prepare transaction 'x'", "begins or ends a transaction"),
        ("copy t from stdin", "copies from or to the client"),
        ("COPY t TO STDOUT", "copies from or to the client"),
        ("create index i on t (c) -- \0", "has a zero byte"),
        ("alter role app password 'geheim'", "has a password"),
    ],
)
def test_texts_that_are_no_change(text: str, why: str) -> None:
    assert str(unfit_sql(text)).startswith(why)


@pytest.mark.parametrize(
    "text",
    [
        "create index i on t (c)",
        "-- why\ncreate index i on t (c); -- really",
        "copy t from '/tmp/stdin'",
        'copy "stdin" from program $$echo 1$$',
        "prepare p as select 1",
        "do $$ begin perform 1; end $$",
        "with x as (select 1) insert into t select * from x",
    ],
)
def test_texts_that_may_be_one(text: str) -> None:
    assert unfit_sql(text) is None


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3))
def test_a_title_is_one_short_line(statements: list[str]) -> None:
    title = title_of_sql(statements)
    assert visible_line(title) == title
    assert len(title) <= TITLE_LENGTH + len(" (and 2 more)")


def test_titles() -> None:
    assert title_of(CHANGE) == "create index i on t (c)"
    assert title_of_sql(["create  index\n i;", "analyze t"]) == "create index i (and 1 more)"
    assert title_of_sql(["x" * 99]) == "x" * 71 + "…"
    assert first_word("-- a\n/* b */ Drop index i") == "drop"


def test_a_change_is_the_same_after_a_run_file() -> None:
    both = Change(settings={"work_mem": "8MB"}).over(CHANGE)
    assert Change.from_json(both.to_json()) == both
    assert both.to_json()["sql"] == {"make": list(INDEX), "undo": ["drop index i"]}
    assert both.without(CHANGE) == Change(settings={"work_mem": "8MB"})


@pytest.mark.parametrize(
    ("make", "durability_class"),
    [
        ("create unique index concurrently i on t (c)", "D0"),
        ("-- faster\ndrop index i", "D0"),
        ('alter table "T x" set (fillfactor = 70)', "D0"),
        ("alter table t reset (fillfactor);", "D0"),
        ("alter table t set unlogged", "D3"),
        ("create unlogged table u ()", "D3"),
        ("create table t (unlogged int)", "D3"),
        ("comment on table t is 'unlogged'", "unknown"),
        ("alter table t drop column c, set (fillfactor = 70)", "unknown"),
        ("drop table t", "unknown"),
    ],
)
def test_what_it_may_lose(make: str, durability_class: str) -> None:
    change = Change(sql={"make": (make,), "undo": ("select 1",)})
    assessed = assess(change, Circumstances())
    assert assessed.durability_class == durability_class
    assert assessed.needs == ("sql",)


def test_the_statements_themselves_are_the_lines_to_apply() -> None:
    make = ("create index i\n  on t (c)", "analyze t; ", "vacuum -- all")
    assessed = assess(Change(sql={"make": make, "undo": ("drop index i",)}), Circumstances())
    assert assessed.lines_to_apply() == [
        *("create index i", "  on t (c);", "analyze t;", "vacuum -- all", ";"),
    ]
    assert assessed.lines_to_undo() == ["drop index i;"]
