"""Workloads whose tables must agree after a crash: by their own check, or, of ``business``, by
sums; and whether the load permits these checks."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.drill._queries import query
from pgdyno.spec.sql_text import quoted
from pgdyno.workload import BUSINESS_COLUMNS, CHECKED, OWN, Tables, schema_of
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

SUMS = ("stock", "order lines", "customers", "payments", "events")
"""The columns of the query of sums, in words."""


def checked_after(conn: Control, texts: Collection[str]) -> tuple[str, ...]:
    """Return the workloads of ``texts``, the scripts of a load, whose tables are checked after a
    crash: only their own scripts change them, and they are logged."""
    kinds = (Tables.BUSINESS, *CHECKED)
    return tuple(OWN[kind].name for kind in kinds if _is_checked(conn, texts, kind))


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


def _is_checked(conn: Control, texts: Collection[str], kind: Tables) -> bool:
    own = OWN[kind]
    # A name with any schema before it, and that of a partition, may be one of these tables.
    names = rf"(?i)\b(?:{'|'.join((*own.columns, *own.sequences, *own.routines))})"
    using = [text for text in texts if re.search(names, text)]
    by_itself = {*using} <= {*builtin_texts().values()}
    return bool(using) and by_itself and not are_unlogged(conn, own.columns)
