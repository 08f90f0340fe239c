"""Conditions of EXPLAIN, read into comparisons."""

from __future__ import annotations

import pytest

from pgdyno.plans.conditions import comparisons, functions_in, refers_to, without_alias


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("((item.id)::numeric = '5'::numeric)", [("(item.id)::numeric", "=", "'5'::numeric")]),
        ("((o.id + 0) = 5)", [("o.id + 0", "=", "5")]),
        (
            "((o.a = 1) AND (o.b >= 'x AND y'::text) AND ((o.c = 1) OR (o.d = 2)))",
            [("o.a", "=", "1"), ("o.b", ">=", "'x AND y'::text")],
        ),
        ("(o.name ~~ 'it''s (%'::text)", [("o.name", "~~", "'it''s (%'::text")]),
        ("(NOT o.done)", [("o.done", "IS", "")]),
        ("((o.at IS NULL) AND o.done)", [("o.at", "IS", ""), ("o.done", "IS", "")]),
        ("(NOT (o.a = 1))", []),
        ("(o.body @> '{\"k\": 5}'::jsonb)", [("o.body", "@>", "'{\"k\": 5}'::jsonb")]),
        ("((o.body ->> 'k'::text) = '5'::text)", [("o.body ->> 'k'::text", "=", "'5'::text")]),
        ("(o.\"a = b\" = 1)", [('o."a = b"', "=", "1")]),
        ("", []),
        (")(", []),
    ],
)  # fmt: skip
def test_comparisons(condition: str, found: list[tuple[str, str, str]]) -> None:
    read = [(each.left, each.operator, each.right) for each in comparisons(condition)]
    assert read == found


def test_what_an_expression_refers_to() -> None:
    assert refers_to("(o.id)::text", "o")
    assert not refers_to("'o.id'::text", "o")
    assert not refers_to("foo.id", "o")
    assert without_alias('COALESCE(o.id, "o".x)', "o") == "COALESCE(id, x)"
    assert functions_in("(public.weighed(5) / 2)") == {"weighed"}
    assert functions_in("'weighed(5)'::text = ANY (1)") == set()
