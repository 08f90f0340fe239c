"""Queries that a script joins, and what of them is a query by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgdyno.plans._joined import queries_of

if TYPE_CHECKING:
    from pgdyno._engine import SampledStatement


def statement(text: str, captures: str | None = None) -> SampledStatement:
    return {
        "position": 3,
        "text": text,
        "parameterized": None,
        "parameters": [],
        "captures": captures,
    }


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("select 1 ; select 2", ["select 1", "select 2"]),
        ("begin;; select ';' ; commit;", ["begin", "select ';'", "commit"]),
        ("select $$;$$; select E'\\';' -- ;", ["select $$;$$", "select E'\\';' -- ;"]),
        ('select ":x;" from t; table t', ['select ":x;" from t', "table t"]),
        ("select ':x'; select '\\x00'::bytea", ["select ':x'", "select '\\x00'::bytea"]),
    ],
)
def test_joined_queries(text: str, queries: list[str]) -> None:
    found = queries_of(statement(text, captures="a_"))
    assert [each["text"] for each in found] == queries
    assert [each["captures"] for each in found] == [None] * (len(queries) - 1) + ["a_"]


@pytest.mark.parametrize("text", ["select 1", "select 1;", "select ';'", ""])
def test_one_query_stays_as_it_is(text: str) -> None:
    one = statement(text)
    assert queries_of(one) == [one]


def test_what_is_no_script_hides_nothing() -> None:
    """A COMMIT within it would keep what is to be undone."""
    found = queries_of(statement("select 1;\n\\unknown;commit"))
    assert [each["text"] for each in found] == ["select 1", "\n\\unknown", "commit"]
