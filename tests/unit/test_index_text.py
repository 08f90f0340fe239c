"""Indexes in the text of a spec."""

from __future__ import annotations

import pytest

from pgdyno.spec.index_text import index_text, trial_statements


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
        'create index pgdyno_order_customer on public."order" (customer)',
        "drop index public.pgdyno_order_customer",
    )
    assert trial_statements("notes", "using gin (body)") == (
        "create index pgdyno_notes_gin_body on notes using gin (body)",
        "drop index pgdyno_notes_gin_body",
    )
