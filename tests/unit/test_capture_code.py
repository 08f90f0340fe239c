"""Functions, triggers and expressions without values: what is kept of their text, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from pgdyno.capture._code import Known, definition, has_values, is_dynamic, names_in
from pgdyno.capture._code import without_literals as bare
from pgdyno.capture._tokens import Unreadable, tokens_of

KNOWN = Known(frozenset({"shop", "orders", "state"}), {"sad": "nhw1jnlf04"})


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("a -- secret\n b", "a  \n b"),
        ("a /* x /* secret */ y */ b", "a   b"),
        ("'secret'", "'xxxxxx'"),
        ("'it''s'", "'xxxx'"),
        (r"E'it\'s'", "'xxxxx'"),
        (r"U&'d\0061ta'", "U&'xxxxxxx'"),
        (r"U&'d!0061ta' uescape '!'", "U&'xxxxxxxx' uescape '!'"),
        ("N'secret'", "'xxxxxx'"),
        ("B'101'", "B'000'"),
        ("$$secret$$", "'xxxxxx'"),
        ("$t$a $$ b$t$", "'xxxxxx'"),
        ("a$b$c$b$", "a$b$c$b$"),
        ("'a'\n  'b'", "'x'\n  'x'"),
        ('"a ""secret"""', '"a ""secret"""'),
        (
            "tg_op = 'INSERT' or tg_op in ('update', '')",
            "tg_op = 'INSERT' or tg_op in ('update', '')",
        ),
        ("'orders' || 'shop.orders' || 'people'", "'orders' || 'shop.orders' || 'xxxxxx'"),
        ("interval '5 minutes'", "interval '5 minutes'"),
        ("'4711 days'::interval", "'1 day'::interval"),
        ("to_char(a, 'YYYY-MM-DD')", "to_char(a, 'YYYY-MM-DD')"),
        ("date '1980-05-17'", "date '2025-01-01'"),
        ("born := '1980-05-17 10:00'", "born := '2025-01-01'"),
        ("""'{"a": "secret"}'""", "'{}'"),
        ("'{secret,b}'::text[]", "'{}'::text[]"),
        ("'secret'::jsonb", "'{}'::jsonb"),
        ("now() at time zone 'Asia/Tokyo'", "now() at time zone 'UTC'"),
        ("raise exception 'no % of %', a, b", "raise exception 'xxx%xxxx%', a, b"),
        ("format('insert %I %2$s', a)", "format('xxxxxxx%Ix%2$s', a)"),
        ("sqlstate '23505'", "sqlstate '23505'"),
        ("using errcode = 'unique_violation'", "using errcode = 'unique_violation'"),
        ("$1 + a1 + 100 * 86400 - 0.19", "$1 + a1 + 100 * 86400 - 0.19"),
        ("4711 + 49301234567 + 12.345", "1000 + 10000000000 + 10.0"),
        ("for i in 1..10 loop", "for i in 1..10 loop"),
    ],
)
def test_code_without_values(code: str, wanted: str) -> None:
    assert bare(code, KNOWN) == wanted
    assert bare(wanted, KNOWN) == wanted


@pytest.mark.parametrize(
    "code", ["'a", '"a', "/* /* */", "$$a", "$t$ a $$", r"'a\' || secret || '", "E'a'\n 'b\\' c'"]
)
def test_code_that_cannot_be_divided_for_certain(code: str) -> None:
    with pytest.raises(Unreadable):
        bare(code, KNOWN)


def test_labels_are_those_of_the_clone() -> None:
    assert bare("mood = 'sad'::mood or mood = 'glad'", KNOWN) == snapshot(
        "mood = 'nhw1jnlf04'::mood or mood = 'xxxx'"
    )


def test_a_function() -> None:
    sql = """\
CREATE OR REPLACE FUNCTION shop.f(a integer DEFAULT 4711, b text DEFAULT 'secret'::text)
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'shop', 'pg_temp'
AS $function$
begin -- secret
    insert into log values ('secret', TG_OP); return new;
end $function$
"""
    assert definition(sql, KNOWN) == snapshot("""\
CREATE OR REPLACE FUNCTION shop.f(a integer DEFAULT 1000, b text DEFAULT 'xxxxxx'::text)
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'shop', 'pg_temp'
AS $function$
begin  \n\
    insert into log values ('xxxxxx', TG_OP); return new;
end
$function$\
""")
    assert {"shop", "log", "tg_op", "integer"} <= names_in(definition(sql, KNOWN))


def test_dynamic_sql() -> None:
    assert is_dynamic("begin EXECUTE 'select ' || a; end")
    assert not is_dynamic("begin raise notice 'execute'; -- execute\n end")


def test_expressions_with_values() -> None:
    assert not has_values("((a > 0) AND (b <> ''::text) AND (c = 1))")
    assert has_values("(a > 5)")
    assert has_values("(a = 'b'::text)")


SECRET = "hush0815"
PIECES = st.sampled_from(
    [
        f"'{SECRET}'",
        f"'a''{SECRET}''b'",
        f"E'\\'{SECRET}\\''",
        f"U&'{SECRET}'",
        f"$$'{SECRET}$$",
        f"$a$ $$ {SECRET} ' -- $a$",
        f"-- {SECRET} ' $$ /*\n",
        f"/* {SECRET} ' /* \" */ $$ */",
        f" {SECRET[4:]}4711 ",
        ' "a \'name" ',
        " word ",
        "$1",
        "+",
        " 1..10 ",
        "\n",
        "'%'",
    ]
)


@given(st.lists(PIECES, max_size=12))
def test_no_value_is_left(pieces: list[str]) -> None:
    code = " ".join(pieces)
    try:
        tokens = [*tokens_of(code)]
    except Unreadable:  # A text with escapes that goes on behind a comment.
        return
    assert "".join(each.text for each in tokens) == code
    found = bare(code, KNOWN)
    assert "hush" not in found
    assert "4711" not in found
    assert bare(found, KNOWN) == found


@given(st.text("ab '\"$\\-/*\nEU&1;", max_size=40))
def test_any_text_is_divided_or_refused(code: str) -> None:
    try:
        tokens = [*tokens_of(code)]
    except Unreadable:
        return
    assert "".join(each.text for each in tokens) == code
