"""Which sessions are opened without the names of pg_catalog, and that none is opened otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pgdyno

ROOT = Path(pgdyno.__file__).parent
OPENED = re.compile(r"\b(?:psycopg|Control|Connection|AsyncConnection)\.connect\(")
PLAIN = re.compile(r"(?<![\w.])(?:connect|open)_plain\((?!path|source|Path|plan)")
MAY_BE_A_POOLER = {
    "pooler/_process.py",
    "pooler/kinds/pgbouncer.py",
    "pooler/kinds/pgpool.py",
    "server/connecting/_pooler.py",
}
STATEMENTS_OF_THE_USER = {
    "capture/_schema.py",  # on an empty server of pgdyno's
    "conduct/_single_run.py",  # events
    "dimension/_dimension.py",  # DDL on tables that the user names
    "plans/_session.py",
    "server/settings/_running_sql.py",  # --sql and --undo-sql
    "workload/_statement_check.py",
    "workload/setup.py",
}


def files_with(pattern: re.Pattern[str]) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if pattern.search(path.read_text("utf-8"))
    }


def test_sessions_are_opened_in_one_place() -> None:
    assert files_with(OPENED) == {"server/connecting/control.py"}


def test_sessions_with_the_names_of_the_role_are_few() -> None:
    own = {"server/connecting/control.py", "server/connecting/connect.py"}
    assert files_with(PLAIN) == own | MAY_BE_A_POOLER | STATEMENTS_OF_THE_USER
