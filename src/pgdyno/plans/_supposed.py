"""Costs of the load's statements with indexes that are not there: where the database has the
extension HypoPG, the planner of a session supposes them, and nothing is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pgdyno.plans._session import LoadLikeSession, Refused
from pgdyno.plans.tree import read_plan
from pgdyno.record import Place, SupposedIndex
from pgdyno.server.connecting.control import names_of_catalog
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change
from pgdyno.spec.index_text import each_index, index_text
from pgdyno.spec.sql_text import literal, quoted, relation

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction
    from pgdyno.server.connecting.control import Control


def may_suppose(conn: Control) -> str | None:
    """Return the schema of HypoPG in this database; None without it. Raises psycopg.Error."""
    with names_of_catalog(conn):
        row = conn.execute(query_at(conn, "plans", "supposing")).fetchone()
    return None if row is None else str(row[0])


def supposed(
    session: LoadLikeSession,
    schema: str,
    change: Change,
    transactions: Sequence[SampledTransaction],
) -> list[SupposedIndex]:
    """Return the costs of the transactions' statements without and with the indexes of a change,
    by the HypoPG in ``schema``; none if it cannot suppose them. The session has explained nothing
    before, and is of no further use. Raises psycopg.Error if the connection fails."""
    before = _costs(session, transactions)
    try:
        for table, text in each_index(change.indexes):
            create = literal(f"create index on {relation(table)} {index_text(text).sql}")
            session.run(f"select {quoted(schema)}.hypopg_create_index({create}::pg_catalog.text)")
        session.run("discard plans")
    except Refused:
        return []
    after = _costs(session, transactions)
    made = json.dumps(change.to_json())
    return [
        SupposedIndex(*place, change=made, cost=cost, supposed_cost=after[place])
        for place, cost in before.items()
        if place in after
    ]


def _costs(
    session: LoadLikeSession, transactions: Sequence[SampledTransaction]
) -> Mapping[Place, float]:
    """Return what the planner expects of each statement that has a plan."""
    return {
        (each["group"], each["script"], position): read_plan(answer).root.cost
        for each in transactions
        for position, (answer, _) in session.explain(each).items()
        if answer is not None
    }
