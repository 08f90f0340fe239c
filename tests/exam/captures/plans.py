"""The shapes of generic plans: kinds of nodes, tables and indexes, without their names.

A partition counts as its table, and an index is known by what it is on: the clone's have names of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from msgspec import Struct

from pgdyno.server.sql_files import OWN

_RELATIONS = f"""
select {OWN} n.nspname || '.' || c.relname as name,
       coalesce(p.relnamespace::regnamespace::text || '.' || p.relname,
                n.nspname || '.' || c.relname) as whole
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  left join pg_class p on p.oid = pg_partition_root(c.oid) and c.relispartition
 where c.relkind in ('r', 'p', 'm')
"""
_INDEXES = f"""
select {OWN} indexname as name, regexp_replace(indexdef, '^.* USING ', '') as whole
  from pg_indexes
"""


class Names(Struct, frozen=True):
    """What the relations and indexes of a server are in a shape."""

    relations: Mapping[str, str]
    indexes: Mapping[str, str]


def names_of(connection: psycopg.Connection[Any]) -> Names:
    """Read the names of a server's relations and indexes."""
    relations, indexes = (
        {row.name: row.whole for row in connection.execute(query.encode())}
        for query in (_RELATIONS, _INDEXES)
    )
    return Names(relations, indexes)


def shape_of_plan(connection: psycopg.Connection[Any], text: str, names: Names) -> str:
    """Return the shape of a statement's generic plan. Raises psycopg.Error."""
    query = f"explain {OWN} (generic_plan, verbose, format json) {text}"
    row = connection.execute(query.encode(), prepare=False).fetchone()
    assert row is not None
    return shape_of_node(row[0][0]["Plan"], names)


def shape_of_node(node: Mapping[str, Any], names: Names) -> str:
    """Return the shape of a node with those below it: ``Index Scan shop.orders (id)``."""
    schema = node.get("Schema", "")
    relation, index = node.get("Relation Name"), node.get("Index Name")
    words = [node["Node Type"]]
    if relation is not None:
        name = f"{schema}.{relation}"
        words.append(names.relations.get(name, name))
    if index is not None:
        words.append(names.indexes.get(index, index))
    below = ", ".join(shape_of_node(each, names) for each in node.get("Plans", ()))
    return f"{' '.join(words)} [{below}]" if below else " ".join(words)
