"""The tables of the ``entity-resolution`` workload, and what must hold in them.

They are nearly empty at the start: the load fills them. Four large ones can be partitioned by hash,
and each has a fillfactor of its own, as the public description of such a load recommends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.server.connecting.marks import mark, mark_of, scale_in
from pgdyno.spec.tables import InitSpec
from pgdyno.workload._found import ENTITY_COLUMNS, FoundTable
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._queries import query
from pgdyno.workload.table_space import entity_space

if TYPE_CHECKING:
    import psycopg

    from pgdyno.spec.model import WorkloadSpec

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


class Consistency(Struct, frozen=True):
    """A check of the tables: sizes, and how many rows break a rule."""

    records: int
    unfinished: int
    """Records whose load was cut off between two statements."""
    entities: int
    broken: Mapping[str, int]
    """Rule in words → number of rows for which it does not hold."""

    @property
    def holds(self) -> bool:
        """True if no rule is broken."""
        return not any(self.broken.values())


_RULES = (
    "observed entities without a record",
    "records in no entity",
    "records in two entities",
    "records in unknown entities",
    "entities with a wrong count of records",
    "keys of unknown features or entities",
    "features counted more often than used",
)
"""The columns of the check after the first three, in words."""


def consistency(conn: psycopg.Connection) -> Consistency:
    """Check the tables. Unfinished records may be counted already, or not yet."""
    row = conn.execute(query("entity_checks")).fetchone()
    assert row is not None
    records, unfinished, entities, *broken = map(int, row)
    return Consistency(records, unfinished, entities, dict(zip(_RULES, broken, strict=True)))


def _init(wanted: WorkloadSpec) -> InitSpec:
    """Return those of the options for making tables that these have."""
    given = wanted.init
    return InitSpec(
        partitions=given.partitions,
        partition_method="hash" if given.partitions else None,
        fillfactor=given.fillfactor,
    )


def _make(conn: psycopg.Connection, wanted: WorkloadSpec) -> None:
    for statement in _statements(wanted):
        conn.execute(statement.encode())


def _statements(wanted: WorkloadSpec) -> Iterator[str]:
    """Yield the statements: tables, partitions, fillfactors, keys."""
    by = {
        f"by_{column.removesuffix('_id')}": _partitioning(wanted, column)
        for column in PARTITIONED.values()
    }
    yield query("entity_tables").decode().format(**by)
    for table in ENTITY_COLUMNS:
        yield from _parts(wanted, table)
    yield query("entity_keys").decode()


def repartition(conn: psycopg.Connection, wanted: WorkloadSpec) -> None:
    """Give the tables the number of partitions that is wanted, with the rows that they have.

    ``conn`` is in autocommit mode. Each table is copied and is replaced by its copy.
    """
    keys = query("entity_keys").decode().split(";")
    for table, column in PARTITIONED.items():
        with conn.transaction():
            conn.execute(f"alter table {table} rename to {table}_before".encode())
            conn.execute(
                f"create table {table} (like {table}_before including defaults including comments)"
                f" {_partitioning(wanted, column)}".encode()
            )
            for statement in _parts(wanted, table):
                conn.execute(statement.encode())
            conn.execute(f"insert into {table} select * from {table}_before".encode())
            conn.execute(f"drop table {table}_before".encode())
            for key in keys:
                if f" {table} " in key:
                    conn.execute(key.encode())
            mark(conn, "table", [table], mark_of(wanted.scale, _init(wanted)))
        conn.execute(f"vacuum analyze {table}".encode())


def _partitioning(wanted: WorkloadSpec, column: str) -> str:
    return f"partition by hash ({column})" if wanted.init.partitions else ""


def _parts(wanted: WorkloadSpec, table: str) -> Iterator[str]:
    """Yield the statements that make a table's partitions and set fillfactors."""
    count = wanted.init.partitions if table in PARTITIONED else 0
    names = [f"{table}_{number}" for number in range(count)]
    for number, name in enumerate(names):
        yield (
            f"create table {name} partition of {table}"
            f" for values with (modulus {count}, remainder {number})"
        )
    all_alike = wanted.init.fillfactor if "fillfactor" in wanted.init.model_fields_set else None
    if table in FILLFACTORS:
        for name in names or [table]:
            yield f"alter table {name} set (fillfactor = {all_alike or FILLFACTORS[table]})"


def _scale(_: psycopg.Connection, found: Mapping[str, FoundTable], wanted: WorkloadSpec) -> int:
    """Return the scale in the mark; without one, that which is wanted."""
    return next((scale_in(table.comment) for table in found.values()), 0) or wanted.scale


ENTITIES = OwnTables(
    "entity-resolution", ENTITY_COLUMNS, _make, _scale, entity_space, _init, SEQUENCES
)
