"""Tables of ``business``, whose sums must agree after a crash, and of ``entity-resolution``, which
are checked record by record; and whether a load permits to say so."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.drill._queries import query
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    import psycopg

SUMS = ("stock", "order lines", "customers", "payments", "events")
"""The columns of the query of sums, in words."""


def why_no_sums(conn: psycopg.Connection, texts: Collection[str] | None) -> str:
    """Return the reason why the sums of ``business`` say nothing of a load with these scripts; ''
    if they do."""
    return _why_not(
        conn, texts, "business", tables=r"\bbusiness_[a-z]", unlogged="business_unlogged"
    )


def why_not_checked(conn: psycopg.Connection, texts: Collection[str] | None) -> str:
    """Return the reason why the check of ``entity-resolution`` says nothing of a load with these
    scripts; '' if it does."""
    return _why_not(
        conn, texts, "entity-resolution", tables=r"\ber_[a-z]", unlogged="entity_unlogged"
    )


def differences(conn: psycopg.Connection) -> dict[str, int]:
    """Return what each sum of ``business`` differs by; all are 0 unless a transaction was lost in
    part."""
    row = conn.execute(query("business_sums")).fetchone()
    assert row is not None
    return dict(zip(SUMS, map(int, row), strict=True))


def _why_not(
    conn: psycopg.Connection,
    texts: Collection[str] | None,
    workload: str,
    *,
    tables: str,
    unlogged: str,
) -> str:
    """``tables`` is a pattern of their names, ``unlogged`` the query that tells if one is."""
    if texts is None:
        return "the load's scripts are not known"
    own = {*builtin_texts().values()}
    using = [text for text in texts if re.search(tables, text)]
    if not using:
        return f"no script uses the tables of {workload}"
    if any(text not in own for text in using):
        return f"another script uses the tables of {workload}"
    row = conn.execute(query(unlogged)).fetchone()
    if row is None or row[0]:
        return f"the tables of {workload} are unlogged: a crash empties them"
    return ""
