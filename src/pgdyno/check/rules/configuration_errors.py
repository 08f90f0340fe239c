"""Errors in postgresql.conf or pg_hba.conf: reloads fail, and the server will not start again.

Trigger: pg_file_settings or pg_hba_file_rules shows an error. Threshold: none. A running server
keeps its old settings; one that starts refuses the file. A file whose errors this role may not see
is listed as not looked at.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, Unseen, measured
from pgdyno.shapes import Row

_LOOKS = ("file_error", "hba_error")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the errors of either file that can be seen."""
    seen = {name: rows for name in _LOOKS if (rows := _rows(sight, name)) is not None}
    if not seen:
        sight.rows(_LOOKS[0])  # raises the reason
    lines = [_line(row) for rows in seen.values() for row in rows]
    if not lines:
        return Fine("the configuration files that can be seen have no errors")
    evidence = [measured(where, error, "") for where, error in lines]
    where, error = lines[0]
    more = f", and {len(lines) - 1} more errors" if len(lines) > 1 else ""
    return Fault(
        sentence=f"{where}: {error}{more}; the server will not start with this file",
        severity="will fail",
        confidence=0.9,
        evidence=evidence,
        advice="mend the line, then SELECT pg_reload_conf() and look again",
    )


def _rows(sight: Sight, name: str) -> list[Row] | None:
    try:
        return list(sight.rows(name))
    except Unseen:
        return None


def _line(row: Row) -> tuple[str, str]:
    if "line_number" in row:
        return f"pg_hba.conf line {row['line_number']}", row["error"]
    name = f" ({row['name']})" if row["name"] else ""
    return f"{row['file'] or 'postgresql.conf'} line {row['sourceline']}{name}", row["error"]


RULE = Rule(
    id="configuration-errors",
    looks=_LOOKS,
    false_positives="a file that somebody is editing at this moment",
    examine=examine,
)
