"""The tables of the ``entity-resolution`` workload, and their invariants.

They are nearly empty at the start: the load fills them. Four large ones can be partitioned by hash,
and each has a fillfactor of its own, as the public description of such a load recommends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.server.connecting.marks import mark, mark_of, scale_in
from pgdyno.server.sql_files import query
from pgdyno.spec.workload import InitSpec
from pgdyno.workload._analyzing import analyze_filled
from pgdyno.workload._found import ENTITY_COLUMNS, FoundTable, schema_of
from pgdyno.workload._own_tables import Consistency, OwnTables
from pgdyno.workload._queries import query_in, regclass
from pgdyno.workload.table_space import entity_space

if TYPE_CHECKING:
    from psycopg import sql

    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec

SEQUENCES = ("er_record_ids", "er_entity_ids")
PARTITIONED = {
    "er_records": "record_id",
    "er_entities": "entity_id",
    "er_feature_stats": "feature_id",
    "er_feature_keys": "feature_id",
}
"""Tables that can be partitioned, and by which column."""
FILLFACTORS = {
    "er_records": 90,
    "er_observed": 75,
    "er_entities": 90,
    "er_entity_records": 75,
    "er_feature_stats": 90,
    "er_feature_keys": 90,
}
"""Fillfactors, in percent, unless one is given for all; those of the public description."""


_COUNTS = ("records", "unfinished", "entities")
"""The first columns of the check. Unfinished are records whose load was cut off between two
statements."""
_RULES = (
    "observed entities without a record",
    "records in no entity",
    "records in two entities",
    "records in unknown entities",
    "entities with a wrong count of records",
    "keys of unknown features or entities",
    "features counted more often than used",
)
"""Its other columns, in words."""


def _check(conn: Control) -> Consistency:
    """Check the tables. Unfinished records may be counted already, or not yet."""
    row = conn.execute(query_in(schema_of(conn, "er_records"), "entity_checks")).fetchone()
    assert row is not None
    found = dict(zip((*_COUNTS, *_RULES), map(int, row), strict=True))
    return Consistency({name: found.pop(name) for name in _COUNTS}, found)


def _init(wanted: WorkloadSpec) -> InitSpec:
    """Return those of the options for making tables that these have."""
    given = wanted.init
    return InitSpec(
        partitions=given.partitions,
        partition_method="hash" if given.partitions else None,
        fillfactor=given.fillfactor,
    )


def _make(conn: Control, schema: str, wanted: WorkloadSpec) -> None:
    for statement in _statements(schema, wanted):
        conn.execute(statement)


def _statements(schema: str, wanted: WorkloadSpec) -> Iterator[sql.Composed]:
    """Yield the statements: tables, partitions, fillfactors, keys."""
    by: dict[str, sql.Composable] = {
        f"by_{column.removesuffix('_id')}": _partitioning(wanted, column)
        for column in PARTITIONED.values()
    }
    ids = {name.removeprefix("er_"): regclass(schema, name) for name in SEQUENCES}
    yield query_in(schema, "entity_tables", **by, **ids)
    for table in ENTITY_COLUMNS:
        yield from _parts(schema, wanted, table)
    yield query_in(schema, "entity_keys")


_BECOMES_COPY = (
    "alter table {table} rename to {renamed}",
    "create table {table} (like {before} including defaults including comments) {partitioned}",
)
_COPIED = ("insert into {table} select * from {before}", "drop table {before}")


def repartition(conn: Control, wanted: WorkloadSpec) -> None:
    """Give the tables the number of partitions that is wanted, with the rows that they have.

    ``conn`` is in autocommit mode. Each table is copied and is replaced by its copy.
    """
    from psycopg import sql

    keys = query("workload", "entity_keys").decode().split(";")
    for table, column in PARTITIONED.items():
        schema = schema_of(conn, table)
        names = {
            "schema": sql.Identifier(schema),
            "table": sql.Identifier(schema, table),
            "before": sql.Identifier(schema, f"{table}_before"),
            "renamed": sql.Identifier(f"{table}_before"),
            "partitioned": _partitioning(wanted, column),
        }
        with conn.transaction():
            for text in _BECOMES_COPY:
                conn.execute(sql.SQL(text).format(**names))
            for statement in _parts(schema, wanted, table):
                conn.execute(statement)
            for text in (*_COPIED, *(key for key in keys if f".{table} " in key)):
                conn.execute(sql.SQL(text).format(**names))
            mark(conn, "table", [(schema, table)], mark_of(wanted.scale, _init(wanted)))
        analyze_filled(conn, [(schema, table)])


def _partitioning(wanted: WorkloadSpec, column: str) -> sql.SQL:
    from psycopg import sql

    return sql.SQL(f"partition by hash ({column})" if wanted.init.partitions else "")


def _parts(schema: str, wanted: WorkloadSpec, table: str) -> Iterator[sql.Composed]:
    """Yield the statements that make a table's partitions and set fillfactors."""
    from psycopg import sql

    count = wanted.init.partitions if table in PARTITIONED else 0
    parts = [sql.Identifier(schema, f"{table}_{number}") for number in range(count)]
    whole = sql.Identifier(schema, table)
    for number, part in enumerate(parts):
        bounds = sql.SQL(f"with (modulus {count}, remainder {number})")
        yield sql.SQL("create table {} partition of {} for values {}").format(part, whole, bounds)
    all_alike = wanted.init.fillfactor if "fillfactor" in wanted.init.model_fields_set else None
    if table in FILLFACTORS:
        fillfactor = sql.SQL(str(all_alike or FILLFACTORS[table]))
        for part in parts or [whole]:
            yield sql.SQL("alter table {} set (fillfactor = {})").format(part, fillfactor)


def _scale(_: Control, found: Mapping[str, FoundTable], wanted: WorkloadSpec) -> int:
    """Return the scale in the mark; without one, that which is wanted."""
    return next((scale_in(table.comment) for table in found.values()), 0) or wanted.scale


ENTITIES = OwnTables(
    *("entity-resolution", ENTITY_COLUMNS, _make, _scale, entity_space, _init, SEQUENCES),
    check=_check,
)
