"""The differences between two captures: what both have is compared, and found in each."""

from __future__ import annotations

import pytest

from pgdyno.clone.difference import shape_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Select $1, $12", "select $3, $1"),
        ("select a from t where a = $1::text", "select a from t where a = $1"),
        ("select a from t where a in ($1, $2, $3)", "select a from t where a IN ($1)"),
        ("select a from t where a in ($1 /*, ... */)", "select a from t where a in ($1, $2)"),
    ],
)
def test_statements_of_one_shape(one: str, other: str) -> None:
    assert shape_of(one) == shape_of(other)


def test_quoted_names_are_equal_in_the_same_case() -> None:
    assert shape_of('select "A"') != shape_of('select "a"')


def test_other_types_are_another_shape() -> None:
    assert shape_of("select $1::date") != shape_of("select $1")
