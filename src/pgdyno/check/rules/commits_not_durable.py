"""Commits acknowledged before they are on disk: for the server, a database or a role.

Trigger: synchronous_commit is off in the configuration, or for a role or a database. Threshold:
none; what a crash takes is the commits of the last three times wal_writer_delay (PostgreSQL's
documentation, "Asynchronous Commit"). It is minor: it is safe for consistency, and mostly wanted;
what is set for one role is easily forgotten.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import duration, listed
from pgdyno.spec.sql_text import quoted

_NAME = "synchronous_commit"
_OFF = ("off", "false", "no", "0")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the setting of the server, and those of roles and databases."""
    own = sight.setting(_NAME)
    others = [row for row in sight.rows("override") if row["name"] == _NAME]
    off = [row for row in others if str(row["setting"]).lower() in _OFF]
    evidence = [measured(_NAME, own.value, "", "off")]
    evidence += [measured(f"{_NAME} of {_of(row)}", row["setting"], "", "off") for row in off]
    globally = not own.is_on and own.source not in ("database", "user", "database user")
    whose = ["the server"] if globally else []
    whose += [_of(row) for row in off]
    if not whose:
        return Fine("commits are acknowledged when they are on disk", evidence)
    lost_s = 3 * sight.setting("wal_writer_delay").seconds
    return Fault(
        sentence=(
            f"synchronous_commit is off for {listed(whose)}: a crash loses the commits of the last"
            f" {duration(lost_s)} (class D1)"
        ),
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        commands=[*_reset_server(globally), *(_reset(row) for row in off)],
    )


def _of(row: dict[str, str]) -> str:
    role = f"role {row['role']}" if row["role"] else ""
    database = f"database {row['database']}" if row["database"] else ""
    return " in ".join(filter(None, (role, database))) or "all roles"


def _reset_server(globally: bool) -> list[str]:
    return ["ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()"] if globally else []


def _reset(row: dict[str, str]) -> str:
    if not row["role"]:
        return f"ALTER DATABASE {quoted(row['database'])} RESET {_NAME}"
    where = f" IN DATABASE {quoted(row['database'])}" if row["database"] else ""
    return f"ALTER ROLE {quoted(row['role'])}{where} RESET {_NAME}"


RULE = Rule(
    id="commits-not-durable",
    looks=("setting", "override"),
    false_positives="an application that can do without its last commits, and knows it",
    examine=examine,
)
