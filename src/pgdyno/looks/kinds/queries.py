"""Looks that are queries of the server."""

from __future__ import annotations

from pgdyno.looks.look import Look
from pgdyno.server.extensions import STATEMENTS

_MAY_READ = (
    "as a superuser: GRANT SELECT ON {view} TO {{role}}; GRANT EXECUTE ON FUNCTION {function}()"
    " TO {{role}}"
)


LOOKS = (
    # The server itself, its settings from all sources, and errors in its files.
    Look("server", "the server's version and the age of its statistics"),
    Look("setting", "settings", as_is=True),
    Look("override", "settings of roles and databases"),
    Look(
        "file_error",
        "errors in postgresql.conf",
        grant=_MAY_READ.format(view="pg_file_settings", function="pg_show_all_file_settings"),
    ),
    Look(
        "hba_error",
        "errors in pg_hba.conf",
        grant=_MAY_READ.format(view="pg_hba_file_rules", function="pg_hba_file_rules"),
    ),
    # Sessions, and the statements that they executed.
    Look("connection_state", "states of sessions", role="pg_read_all_stats"),
    Look("old_transaction", "the oldest transactions", role="pg_read_all_stats", lasting=True),
    Look("statement", "statements", role="pg_read_all_stats", extension=STATEMENTS),
    Look("statement_info", "statements", extension=STATEMENTS),
    Look("wal_total", "WAL written"),
    # Databases, tables and indexes, by the catalogs and by counters: no file is looked at.
    Look("database", "databases"),
    Look("relation_total", "the size of this database"),
    Look("table", "tables"),
    Look("autovacuum_off", "tables without autovacuum"),
    Look("unused_index", "indexes that are not read"),
    Look("invalid_index", "invalid indexes"),
    Look("duplicate_index", "duplicate indexes"),
    Look("prefix_index", "indexes that are the beginning of others"),
    Look("toast", "values stored out of line"),
    # Replication: slots, standbys, publications, and a standby's own recovery.
    Look("slot", "replication slots"),
    Look("standby", "standbys", role="pg_read_all_stats"),
    Look("recovery", "recovery of a standby"),
    Look("publication", "publications"),
    # The time of commits, which is measured by writing, and so only when asked for.
    Look("write_probe", "the time of a commit", option="--write-probe"),
)
