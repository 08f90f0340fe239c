"""The tables of ``entity-resolution``: what must agree in them after a crash, record by record."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pgdyno.drill._queries import query
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    import psycopg

_TABLE = re.compile(r"\ber_[a-z]")


def why_not_checked(conn: psycopg.Connection, texts: Collection[str] | None) -> str:
    """Return the reason why the check says nothing of a load with these scripts; '' if it does."""
    if texts is None:
        return "the load's scripts are not known"
    own = {*builtin_texts().values()}
    using = [text for text in texts if _TABLE.search(text)]
    if not using:
        return "no script uses the tables of entity-resolution"
    if any(text not in own for text in using):
        return "another script uses the tables of entity-resolution"
    unlogged = conn.execute(query("entity_unlogged")).fetchone()
    if unlogged is None or unlogged[0]:
        return "the tables of entity-resolution are unlogged: a crash empties them"
    return ""
