"""Columns that are null in all rows, as the statements tell."""

from __future__ import annotations

import pytest

from pgdyno.capture._nulls import with_nulls
from pgdyno.clone.capture_file import Column, Function, Statement, Table

_NOTES = Table(
    "public",
    "notes",
    100,
    2,
    (
        Column("id", "bigint", "int8", not_null=True),
        Column("body", "text", "text"),
        Column("thread", "text", "text"),
        Column("made", "timestamp with time zone", "timestamptz", default="time"),
        Column("size", "integer", "int4", distinct=5.0),
    ),
)
_INSERT = "insert into notes as n (id, body) values ($1, $2)"


def _null(*texts: str, functions: tuple[Function, ...] = ()) -> list[str]:
    statements = [Statement(text, (), 1.0, 1.0, 1.0, 1.0) for text in texts]
    (table,) = with_nulls((_NOTES,), statements, functions)
    return [each.name for each in table.columns if each.null_share == 1]


def test_what_no_statement_writes_is_null() -> None:
    assert _null(_INSERT, "select thread from notes") == ["thread"]


@pytest.mark.parametrize(
    "text",
    [
        "insert into notes values ($1, $2, $3)",
        "insert into public.notes (id, thread) select id, thread from others",
        f"{_INSERT} on conflict (id) do update set thread = excluded.thread",
        "update notes set thread = $1 where id = $2",
    ],
)
def test_what_another_statement_writes_is_not(text: str) -> None:
    assert _null(_INSERT, text) == []


def test_nothing_is_told_without_an_insert_or_with_a_function() -> None:
    assert _null("select 1 from notes") == []
    function = Function("public", "f", "create function f() … insert into notes")
    assert _null(_INSERT, functions=(function,)) == []
