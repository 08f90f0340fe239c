"""Existing tables of the built-in workloads, found along the search path as a script would, and the
schema in which new ones are made."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.connecting.conninfo import as_option
from pgdyno.server.connecting.marks import is_ours
from pgdyno.server.sql_files import query
from pgdyno.spec.sql_text import on_one_line

if TYPE_CHECKING:
    from psycopg import sql

    from pgdyno.server.connecting.control import Control

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
TPCC_COLUMNS = {
    "tpcc_warehouses": ["w_id", "w_name", "w_street_1", "w_street_2", "w_city", "w_state",
        "w_zip", "w_tax", "w_ytd"],
    "tpcc_districts": ["d_w_id", "d_id", "d_name", "d_street_1", "d_street_2", "d_city",
        "d_state", "d_zip", "d_tax", "d_ytd", "d_next_o_id"],
    "tpcc_customers": ["c_w_id", "c_d_id", "c_id", "c_first", "c_middle", "c_last", "c_street_1",
        "c_street_2", "c_city", "c_state", "c_zip", "c_phone", "c_since", "c_credit",
        "c_credit_lim", "c_discount", "c_balance", "c_ytd_payment", "c_payment_cnt",
        "c_delivery_cnt", "c_data"],
    "tpcc_history": ["h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount",
        "h_data"],
    "tpcc_new_orders": ["no_w_id", "no_d_id", "no_o_id"],
    "tpcc_orders": ["o_w_id", "o_d_id", "o_id", "o_c_id", "o_carrier_id", "o_ol_cnt",
        "o_all_local", "o_entry_d"],
    "tpcc_order_lines": ["ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "ol_i_id",
        "ol_delivery_d", "ol_amount", "ol_supply_w_id", "ol_quantity", "ol_dist_info"],
    "tpcc_items": ["i_id", "i_im_id", "i_name", "i_price", "i_data"],
    "tpcc_stock": ["s_w_id", "s_i_id", "s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt",
        "s_data", "s_dist_01", "s_dist_02", "s_dist_03", "s_dist_04", "s_dist_05", "s_dist_06",
        "s_dist_07", "s_dist_08", "s_dist_09", "s_dist_10"],
}  # fmt: skip
MIXED_COLUMNS = {"test_table": ["id", "c1", "c2", "c3", "c4", "c5"]}
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_OF_OTHER_TYPES = "a table with columns of types that are not PostgreSQL's own"


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
    plain: bool
    """True if the types of its columns are PostgreSQL's own: casts and checks of others are
    functions of their owner's."""

    @property
    def ours(self) -> bool:
        """True if pgdyno made it."""
        return is_ours(self.comment)

    @property
    def identifier(self) -> sql.Identifier:
        """Its name in SQL."""
        from psycopg import sql

        return sql.Identifier(self.schema, self.name)

    @property
    def other_kind(self) -> str | None:
        """The kind of relation, such as ``a view``; ``None`` for a table that pgdyno reads itself:
        reading a view executes its functions, with the rights of the role that reads."""
        return _KINDS.get(self.kind) or (None if self.plain else _OF_OTHER_TYPES)

    @property
    def is_pgbench(self) -> bool:
        """True if it is a table with the columns of pgbench's table of that name."""
        return self.other_kind is None and list(self.columns) == PGBENCH_COLUMNS[self.name]


def find_tables(conn: Control, names: Iterable[str]) -> dict[str, FoundTable]:
    """Return the existing tables among ``names``."""
    wanted = {"names": list(names), "schemas": list(conn.user_schemas)}
    rows = conn.execute(query("workload", "tables_found"), wanted).fetchall()
    return {row[0]: FoundTable(*row) for row in rows}


def schema_for_new(conn: Control) -> str:
    """Return the schema in which a script would make a table. Raises psycopg's error, as the
    server would, if there is none."""
    from psycopg.errors import InvalidSchemaName

    if not conn.user_schemas:
        raise InvalidSchemaName("no schema has been selected to create in")
    return conn.user_schemas[0]


def schema_of(conn: Control, table: str) -> str:
    """Return the schema in which a script finds a table, or would make it."""
    found = find_tables(conn, [table])
    return found[table].schema if found else schema_for_new(conn)


def find_pgbench(conn: Control) -> dict[str, FoundTable]:
    """Return the existing tables among pgbench's four."""
    return find_tables(conn, list(PGBENCH_COLUMNS))


def hidden(conn: Control, names: Iterable[str]) -> SetupError | None:
    """Return the error for tables that exist, all of ``names``, in a schema outside of the search
    path; ``None`` if no schema has them."""
    names, schemas = list(names), list(conn.user_schemas)
    row = conn.execute(
        query("workload", "tables_hidden"), {"names": names, "schemas": schemas}
    ).fetchone()
    if row is None:
        return None
    schema, role, may_use = row
    option = as_option("search_path", schema)
    role, schema = on_one_line(role), on_one_line(schema)
    way = f"ALTER ROLE {role} SET search_path = {schema}; or PGOPTIONS={shlex.quote(option)}"
    return SetupError(
        f"{', '.join(names)}: in the schema {schema} of the database {conn.info.dbname}, which is"
        f" not visible to the role {role}: its search_path is {conn.user_path or 'empty'}"
        + ("" if may_use else f", and the role has no USAGE on {schema}"),
        code="tables-hidden",
        hint=way if may_use else f"as a superuser: GRANT USAGE ON SCHEMA {schema} TO {role}; {way}",
    )
