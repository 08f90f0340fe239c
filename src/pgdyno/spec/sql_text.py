"""Names in the text of SQL, with quotes or without, and statements that end a transaction."""

from __future__ import annotations

import re

NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
"""Pattern of an identifier."""
RELATION = rf"(?:{NAME}\s*\.\s*)?{NAME}"
"""Pattern of a table, with a schema or without."""
_RESERVED = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check
collate collation column concurrently constraint create cross current_catalog current_date
current_role current_schema current_time current_timestamp current_user default deferrable desc
distinct do else end except false fetch for foreign freeze from full grant group having ilike
in initially inner intersect into is isnull join lateral leading left like limit localtime
localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
references returning right select session_user similar some symmetric system_user table
tablesample then to trailing true union unique user using variadic verbose when where window
with
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that PostgreSQL 15 to 18 read as a name only in quotes: ``pg_get_keywords()``."""
_ENDS = re.compile(r"\s*(?:end|commit)\b", re.IGNORECASE)


def folded(name: str) -> str:
    """Return an identifier as PostgreSQL stores it: without quotes, or in lower case."""
    name = name.strip()
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def quoted(name: str) -> str:
    """Return an identifier as SQL has it, quoted where it would not be read as it is stored."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def names_table(written: str, table: str) -> bool:
    """Return whether ``written`` is ``table``, as far as both have a schema."""
    parts, known = [folded(part) for part in written.split(".")], table.split(".")
    shorter = min(len(parts), len(known))
    return parts[-shorter:] == known[-shorter:]


def mentions(statement: str, table: str) -> bool:
    """Return whether the name of ``table``, with a schema or without, is a word of a statement."""
    name = table.rpartition(".")[2]
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", statement, re.IGNORECASE) is not None


def is_commit(statement: str) -> bool:
    """Return whether a statement is COMMIT or END."""
    return _ENDS.match(statement) is not None
