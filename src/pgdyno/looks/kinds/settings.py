"""The server itself, its settings from all sources, and errors in its files."""

from __future__ import annotations

from pgdyno.looks.look import Look

_MAY_READ = (
    "as a superuser: GRANT SELECT ON {view} TO {{role}}; GRANT EXECUTE ON FUNCTION {function}()"
    " TO {{role}}"
)

LOOKS = (
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
)
