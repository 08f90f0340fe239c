"""The columns of parameters, as plans of an empty schema tell them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgdyno.capture._parameters import Unplannable, planned
from pgdyno.capture._schema import EmptySchema
from pgdyno.capture._texts import without_values
from pgdyno.clone.capture_file import Column, Table

TABLE = Table(
    "public",
    "t",
    100,
    1,
    (
        Column("id", "bigint", "int8"),
        Column("kind", "integer", "int4"),
        Column("name", "text", "text"),
    ),
    keys=(("id",),),
    has_primary=True,
)


@pytest.fixture(scope="module")
def schema() -> Iterator[EmptySchema]:
    with EmptySchema((TABLE,)) as found:
        yield found


@pytest.mark.alike
@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("select * from t where id = $1 and kind <> $2", ["compared id", "compared kind"]),
        ("select * from t where id between $1 and $2", ["least id", "most id"]),
        ("select * from t where $1 < id and $2 >= id", ["least id", "most id"]),
        ("select * from t where id in ($1, $2)", ["compared id", "compared id"]),
        ("select * from t where id = any($1)", ["compared id"]),
        (
            "select * from t where id = any(array[$1, $2]) limit $3",
            ["compared id", "compared id", "limit "],
        ),
        (
            "select * from t where (id, kind) in (($1, $2), ($3, $4))",
            ["compared id", "compared kind"] * 2,
        ),
        ("select * from t where lower(name) = lower($1)", ["compared name"]),
        ("select * from t where id = $1 or kind = $2", ["compared id", "compared kind"]),
        ("select * from t where id >= $1 - $2", ["least id", "added id"]),
        ("select * from t, unnest($1::bigint[]) as u(x) where id = u.x", ["compared id"]),
        (
            "update t set kind = t.kind + $5 from (values ($1, $2), ($3, $4)) as v (a, b)"
            " where id = v.a::bigint and kind = v.b::int",
            [*["compared id", "compared kind"] * 2, "added kind"],
        ),
        (
            "update t set kind = $1, name = $2 where id = $3",
            ["set kind", "set name", "compared id"],
        ),
        ("insert into t values ($1, $2, $3)", ["inserted id", "inserted kind", "inserted name"]),
        (
            "insert into t (name, id) values ($1, $2), (upper($3), $4) on conflict do nothing",
            ["inserted name", "inserted id", "other ", "inserted id"],
        ),
        (
            "insert into t values ($1, (select max(kind) from t where id = $2), $3)",
            ["inserted id", "compared id", "inserted name"],
        ),
        ("insert into t (id) select * from unnest($1::bigint[])", ["other "]),
        ("select now() + interval $1 from t where id = $2", ["other ", "compared id"]),
        ("select nextval($1) from generate_series($2, $3)", ["other ", "least ", "most "]),
        (
            "select * from t as a left join t as b on a.id = b.kind where a.id in ($1)",
            ["compared id"],
        ),
        ("delete from t where (id) in (values ($1))", ["compared id"]),
        ("select from t where (id) in (values ($1), ($2))", ["compared id"] * 2),
        (
            "update t set kind = case when kind < $1 then $2 else kind end where id = $3",
            ["set kind", "set kind", "compared id"],
        ),
        ("select jsonb_build_object($1, $2)", ["other "] * 2),
    ],
)
def test_the_columns_of_parameters(schema: EmptySchema, text: str, uses: list[str]) -> None:
    connection: psycopg.Connection = schema.connection
    _, found = planned(connection, without_values(text), schema.by_name)
    assert [f"{each.use} {each.column}" for each in found] == uses


@pytest.mark.alike
def test_a_statement_of_another_schema_is_refused(schema: EmptySchema) -> None:
    with pytest.raises(Unplannable, match="does not exist"):
        planned(schema.connection, "select * from absent where id = $1", schema.by_name)
