"""The sums of the ``business`` workload: what must agree between its tables after a crash."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.drill._queries import query
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    import psycopg

SUMS = ("stock", "order lines", "customers", "payments", "events")
"""The columns of the query, in words."""
_TABLE = re.compile(r"\bbusiness_[a-z]")


def why_no_sums(conn: psycopg.Connection, texts: Collection[str] | None) -> str:
    """Return the reason why the sums say nothing of a load with these scripts; '' if they do."""
    if texts is None:
        return "the load's scripts are not known"
    own = {*builtin_texts().values()}
    using = [text for text in texts if _TABLE.search(text)]
    if not using:
        return "no script uses the tables of business"
    if any(text not in own for text in using):
        return "another script uses the tables of business"
    unlogged = conn.execute(query("business_unlogged")).fetchone()
    if unlogged is None or unlogged[0]:
        return "the tables of business are unlogged: a crash empties them"
    return ""


def differences(conn: psycopg.Connection) -> dict[str, int]:
    """Return what each sum differs by; all are 0 unless a transaction was lost in part."""
    row = conn.execute(query("business_sums")).fetchone()
    assert row is not None
    return dict(zip(SUMS, map(int, row), strict=True))
