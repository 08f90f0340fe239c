"""Statements without their values, and the page that sent them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.probe.statement_shapes import page_of, shape_with_page, statement_shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("update t set a = a + 1 where id = 42", "update t set a = a + ? where id = ?"),
        ("select  $1,\n\t$2", "select $1, $2"),
        ("insert into t1 values ('it''s', -1.5e3)", "insert into t1 values (?, -?)"),
        ("select E'a\\'b', $q$ 'x' $q$, U&'d'", "select ?, ?, U&?"),
        ("""select "it's 5" from "t 1" where a='x'""", """select "it's 5" from "t 1" where a=?"""),
        ("select 1 -- it's\n, 2 /* 'three */", "select ? , ?"),
        ("insert into t values ('cut sho", "insert into t values (?"),
        ("END;", "END;"),
    ],
)
def test_statement_shapes(text: str, shape: str) -> None:
    assert statement_shape(text) == shape


@given(st.text(max_size=40), st.integers(min_value=0))
def test_the_shape_tells_no_value(secret: str, number: int) -> None:
    quoted = secret.replace("\\", "").replace("'", "''")
    text = f"update t set note = '{quoted}', n = {number} where id = $1"
    assert statement_shape(text) == "update t set note = ?, n = ? where id = $1"


@given(st.text(max_size=30), st.integers(min_value=26, max_value=60))
def test_a_text_cut_within_a_value_tells_nothing_of_it(secret: str, length: int) -> None:
    quoted = secret.replace("\\", "").replace("'", "''")
    cut = f"alter role r password    '{quoted}'"[:length]
    assert statement_shape(cut).rstrip(" ?'") == "alter role r password"


@given(st.text(max_size=200))
def test_a_shape_is_its_own_shape(text: str) -> None:
    once = statement_shape(text.replace("$", ""))
    assert statement_shape(once) == once


@pytest.mark.parametrize(
    ("text", "page", "shape"),
    [
        ("/* /order */ select  1", "/order", "/* /order */ select ?"),
        ("/* / */ select 1", "/", "/* / */ select ?"),
        ("/* /order/17 */ select 1", "", "select ?"),
        ("/* traceparent='00-1' */ select 1", "", "select ?"),
        ("select 1 /* /order */", "", "select ?"),
    ],
)
def test_a_statement_of_a_front_end_names_its_page(text: str, page: str, shape: str) -> None:
    assert page_of(text) == page
    assert shape_with_page(text) == shape
    assert page_of(shape) == page
