"""Indexes in the text of a spec."""

from __future__ import annotations

import pytest

from pgdyno.spec.change import Change
from pgdyno.spec.index_text import (
    checked,
    each_index,
    index_text,
    separated,
    together,
    trial_statements,
)


@pytest.mark.parametrize(
    ("text", "read", "title"),
    [
        ("customer,placed", "customer, placed", "index on customer, placed"),
        ('(customer, "Order")', 'customer, "Order"', 'index on customer, "Order"'),
        ("using gin (body)", "using gin (body)", "GIN index on body"),
        ("using btree (lower(email))", "using btree (lower(email))", "index on lower(email)"),
        ("(lower(email), at DESC)", "using btree (lower(email), at DESC)", None),
        ("USING GiST ( during )", "using gist (during)", "GiST index on during"),
        ("(coalesce(note, ');'))", "using btree (coalesce(note, ');'))", None),
        ('("a;b" desc)', 'using btree ("a;b" desc)', None),
    ],
)
def test_indexes(text: str, read: str, title: str | None) -> None:
    found = index_text(text)
    assert found.text == read
    assert index_text(read) == found
    assert title in (None, found.title)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "lower(email)",
        "a b",
        "using gin",
        "(a); drop table b; --",
        "(a) where (b)",
        "((a)",
    ],
)
def test_what_is_no_index(text: str) -> None:
    with pytest.raises(ValueError, match="is no index"):
        index_text(text)


def test_statements_to_try_one() -> None:
    assert trial_statements("public.order", "customer") == (
        ('create index pgdyno_order_customer on public."order" (customer)',),
        "drop index public.pgdyno_order_customer",
    )
    assert trial_statements("notes", "using gin (body)") == (
        ("create index pgdyno_notes_gin_body on notes using gin (body)",),
        "drop index pgdyno_notes_gin_body",
    )
    makes, drop = trial_statements("notes", "using gin (body gin_trgm_ops)")
    assert makes[0] == "create extension if not exists pg_trgm"
    assert (len(makes), drop) == (2, "drop index pgdyno_notes_gin_body_gin_trgm_ops")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("customer", ["customer"]),
        ("customer; placed, state;", ["customer", "placed, state"]),
        ("\"a;b\"; (coalesce(note, ');'))", ['"a;b"', "(coalesce(note, ');'))"]),
        (";", []),
    ],
)
def test_several_indexes(text: str, parts: list[str]) -> None:
    assert separated(text) == parts
    assert separated(together(text, text)) == parts


def test_the_usual_form_of_several() -> None:
    assert checked("a,b ;(lower(c))") == "a, b; using btree (lower(c))"
    for text in ("", ";", "a; lower(b)"):
        with pytest.raises(ValueError, match="is no index"):
            checked(text)


def test_a_change_adds_to_the_indexes_of_another() -> None:
    first, second = Change(indexes={"t": "a"}), Change(indexes={"t": "b; a", "u": "c"})
    both = second.over(first)
    assert [*each_index(both.indexes)] == [("t", "a"), ("t", "b"), ("u", "c")]
    assert both.without(second) == Change()
    assert both.without(first) == Change(indexes={"t": "b", "u": "c"})
