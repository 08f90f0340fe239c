"""Tables of ``business``, whose sums must agree after a crash, and of ``entity-resolution``, which
are checked record by record; and whether the load permits these checks."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.drill._queries import query
from pgdyno.spec.sql_text import quoted
from pgdyno.workload import BUSINESS_COLUMNS, ENTITY_COLUMNS, schema_of
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

SUMS = ("stock", "order lines", "customers", "payments", "events")
"""The columns of the query of sums, in words."""


def why_no_sums(conn: Control, texts: Collection[str] | None) -> str:
    """Return the reason why the sums of ``business`` say nothing of a load with these scripts; ''
    if they do."""
    return _why_not(conn, texts, "business", r"\bbusiness_[a-z]", BUSINESS_COLUMNS)


def why_not_checked(conn: Control, texts: Collection[str] | None) -> str:
    """Return the reason why the check of ``entity-resolution`` says nothing of a load with these
    scripts; '' if it does."""
    return _why_not(conn, texts, "entity-resolution", r"\ber_[a-z]", ENTITY_COLUMNS)


def differences(conn: Control) -> dict[str, int]:
    """Return the difference of each sum of ``business``; all are 0 unless a transaction was lost in
    part."""
    schema = quoted(schema_of(conn, next(iter(BUSINESS_COLUMNS))))
    row = conn.execute(query("business_sums", schema=schema)).fetchone()
    assert row is not None
    return dict(zip(SUMS, map(int, row), strict=True))


def are_unlogged(conn: Control, tables: Collection[str]) -> bool:
    """True if one of the tables of a workload, or a partition of one, is unlogged or missing."""
    names = list(tables)
    wanted = {"names": names, "schema": schema_of(conn, names[0])}
    row = conn.execute(query("unlogged"), wanted).fetchone()
    return row is None or bool(row[0])


def _why_not(
    conn: Control,
    texts: Collection[str] | None,
    workload: str,
    pattern: str,
    tables: Collection[str],
) -> str:
    """``pattern`` is that of the names of ``tables``, as scripts have them."""
    if texts is None:
        return "the load's scripts are not known"
    own = {*builtin_texts().values()}
    using = [text for text in texts if re.search(pattern, text)]
    if not using:
        return f"no script uses the tables of {workload}"
    if any(text not in own for text in using):
        return f"another script uses the tables of {workload}"
    if are_unlogged(conn, tables):
        return f"the tables of {workload} are unlogged: a crash empties them"
    return ""
