"""Sessions, and the statements that they executed."""

from __future__ import annotations

from pgdyno.looks.look import Look
from pgdyno.server.extensions import STATEMENTS

LOOKS = (
    Look("connection_state", "states of sessions", role="pg_read_all_stats"),
    Look("old_transaction", "the oldest transactions", role="pg_read_all_stats", lasting=True),
    Look("statement", "statements", role="pg_read_all_stats", extension=STATEMENTS),
    Look("statement_info", "statements", extension=STATEMENTS),
    Look("wal_total", "WAL written"),
)
