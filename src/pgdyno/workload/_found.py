"""Existing tables of the built-in workloads, found along the search path as a script would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.connecting.marks import is_ours
from pgdyno.workload._queries import query

if TYPE_CHECKING:
    import psycopg

PGBENCH_COLUMNS = {
    "pgbench_accounts": ["aid", "bid", "abalance", "filler"],
    "pgbench_branches": ["bid", "bbalance", "filler"],
    "pgbench_history": ["tid", "bid", "aid", "delta", "mtime", "filler"],
    "pgbench_tellers": ["tid", "bid", "tbalance", "filler"],
}
BUSINESS_COLUMNS = {
    "business_customers": ["id", "name", "orders", "spent_cents"],
    "business_products": ["id", "name", "price_cents"],
    "business_stock": ["product", "delivered", "in_stock"],
    "business_orders": ["id", "customer", "placed", "state", "total_cents"],
    "business_order_lines": ["order_id", "line", "product", "quantity", "price_cents"],
    "business_payments": ["order_id", "amount_cents", "taken"],
    "business_events": ["partition", "position", "kind", "product", "received"],
    "business_positions": ["partition", "position"],
}
ENTITY_COLUMNS = {
    "er_sources": ["source", "name"],
    "er_records": ["record_id", "source", "hash", "loaded", "document"],
    "er_observed": ["record_id", "source", "source_key", "first_seen", "features"],
    "er_entities": ["entity_id", "records", "version", "summary"],
    "er_entity_records": ["record_id", "entity_id", "reason"],
    "er_features": ["feature_id", "kind", "hash", "words"],
    "er_feature_stats": ["feature_id", "records", "redone"],
    "er_feature_keys": ["feature_id", "entity_id", "kind", "seen"],
    "er_relations": ["entity_id", "other_id", "level", "version"],
    "er_queue": ["id", "feature_id", "queued"],
    "er_record_hashes": ["hash", "record_id"],
    "er_feature_hashes": ["hash", "feature_id"],
}
INGEST_COLUMNS = {"ingest_rows": ["id", "source", "code", "loaded", "name", "document"]}
MIXED_COLUMNS = {"test_table": ["id", "c1", "c2", "c3", "c4", "c5"]}
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


class FoundTable(Struct, frozen=True):
    """A table, or another relation of its name."""

    name: str
    schema: str
    kind: str
    """Value of ``pg_class.relkind``."""
    comment: str | None
    keyed: bool
    """True if it has a primary key."""
    columns: Sequence[str]

    @property
    def ours(self) -> bool:
        """True if pgdyno made it."""
        return is_ours(self.comment)

    @property
    def other_kind(self) -> str | None:
        """The kind of relation, such as ``a view``; ``None`` for a table."""
        return _KINDS.get(self.kind)

    @property
    def is_pgbench(self) -> bool:
        """True if it is a table with the columns of pgbench's table of that name."""
        return self.other_kind is None and list(self.columns) == PGBENCH_COLUMNS[self.name]


def find_tables(conn: psycopg.Connection, names: Sequence[str]) -> dict[str, FoundTable]:
    """Return the existing tables among ``names``."""
    rows = conn.execute(query("tables_found"), {"names": list(names)}).fetchall()
    return {row[0]: FoundTable(*row) for row in rows}


def find_pgbench(conn: psycopg.Connection) -> dict[str, FoundTable]:
    """Return the existing tables among pgbench's four."""
    return find_tables(conn, list(PGBENCH_COLUMNS))


def hidden(conn: psycopg.Connection, names: Sequence[str]) -> SetupError | None:
    """Return the error for tables that exist, all of ``names``, in a schema outside of the search
    path; ``None`` if no schema has them."""
    row = conn.execute(query("tables_hidden"), {"names": list(names)}).fetchone()
    if row is None:
        return None
    schema, role, search_path, may_use = row
    way = f"ALTER ROLE {role} SET search_path = {schema}; or PGOPTIONS='-c search_path={schema}'"
    return SetupError(
        f"{', '.join(names)}: in the schema {schema} of the database {conn.info.dbname}, which is"
        f" not visible to the role {role}: its search_path is {search_path or 'empty'}"
        + ("" if may_use else f", and the role has no USAGE on {schema}"),
        code="tables-hidden",
        hint=way if may_use else f"as a superuser: GRANT USAGE ON SCHEMA {schema} TO {role}; {way}",
    )
