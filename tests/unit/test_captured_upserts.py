"""The rows that INSERTs which update others add."""

from __future__ import annotations

import pytest

from pgdyno.capture._upserts import with_added
from pgdyno.clone.capture_file import Parameter, Statement

_UPSERT = "insert into t (id) values ($1) on conflict (id) do update set n = t.n + 1"
_SKIP = "insert into t (id) values ($1) on conflict do nothing"


def _insert(text: str, calls_per_s: float, rows: float) -> Statement:
    return Statement(
        text, (Parameter("bigint", "inserted", "public.t", "id"),), calls_per_s, rows, 0.1, 0.0
    )


@pytest.mark.parametrize(
    ("inserted_per_s", "added"), [(20.0, 0.0), (45.0, 0.5), (70.0, 1.0), (90.0, 1.0)]
)
def test_rows_that_others_did_not_insert_are_those_of_the_upsert(
    inserted_per_s: float, added: float
) -> None:
    statements = {"a": _insert(_UPSERT, 50.0, 1.0), "b": _insert(_SKIP, 40.0, 0.5)}
    found = with_added(statements, {"public.t": inserted_per_s})
    assert [each.added for each in found.values()] == [added, None]
    assert with_added(statements, {}) == statements
