"""Names and literals in the text of SQL, with quotes or without, lists of columns, and statements
that end a transaction.

What pgdyno prints as SQL holds names and values that a role on the server has chosen. ``quoted``,
``literal`` and ``relation`` write them so that each is one token on one line, whatever is in it,
with standard_conforming_strings on or off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdyno.escaping import visible

NAME = r'(?:(?:[uU]&)?"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
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
_ESCAPE = r"\\(?:(\\)|\+([0-9A-Fa-f]{6})|([0-9A-Fa-f]{4}))"
QUOTED = r"""(?is)e'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|(?:u&)?"(?:[^"]|"")*\""""
"""Pattern of a string constant, or of an identifier in quotes."""
_SECOND_PARAMETER = r"\$2(?!\d)"
_ENDS = re.compile(r"\s*(?:end|commit)\b", re.IGNORECASE)


def folded(name: str) -> str:
    """Return an identifier as PostgreSQL stores it: without quotes, or in lower case."""
    name = name.strip()
    if name[:3].lower() == 'u&"':
        return re.sub(_ESCAPE, _unescaped, name[3:-1].replace('""', '"'))
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def stored(written: str) -> str:
    """Return ``schema.name``, as a run file has it, of a relation as SQL has it."""
    return ".".join(map(folded, re.findall(NAME, written)))


def quoted(name: str) -> str:
    """Return an identifier as SQL has it, quoted where it would not be read as it is stored."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in RESERVED:
        return name
    doubled = name.replace('"', '""')
    if not _is_escaped(name):
        return f'"{doubled}"'
    return 'U&"' + _escaped(doubled.replace("\\", "\\\\"), r"\{:04X}", r"\+{:06X}") + '"'


def literal(text: str) -> str:
    """Return a string constant as SQL has it."""
    doubled = text.replace("'", "''")
    if "\\" not in text and not _is_escaped(text):
        return f"'{doubled}'"
    return "E'" + _escaped(doubled.replace("\\", "\\\\"), r"\u{:04X}", r"\U{:08X}") + "'"


def relation(name: str) -> str:
    """Return ``schema.name``, as a run file has it, with both quoted where needed."""
    return ".".join(map(quoted, name.split(".", 1)))


def on_one_line(sql: str) -> str:
    """Return SQL whose names the server has quoted, which leaves line breaks as they are, with
    those escaped."""
    return re.sub(QUOTED, _on_one_line, sql)


def _is_escaped(text: str) -> bool:
    return any(map(_needs_escape, text))


def _needs_escape(letter: str) -> bool:
    return letter in "\n\t" or (visible(letter) != letter and not "\ud800" <= letter <= "\udfff")


def _escaped(text: str, short: str, long: str) -> str:
    """Return a text with control characters in the form for their code points."""
    return "".join(
        (short if ord(letter) < 1 << 16 else long).format(ord(letter))
        if _needs_escape(letter)
        else letter
        for letter in text
    )


def _unescaped(found: re.Match[str]) -> str:
    return found[1] or chr(int(found[2] or found[3], 16))


def _on_one_line(found: re.Match[str]) -> str:
    token = found[0]
    if not _is_escaped(token):
        return token
    if token.startswith("'"):
        return literal(token[1:-1].replace("''", "'"))
    return quoted(folded(token)) if token.endswith('"') else token


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


def locks_until_commit(statement: str) -> bool:
    """Return whether a statement takes an advisory lock of its transaction."""
    return re.search(r"advisory_xact_lock", statement, re.IGNORECASE) is not None


_COLUMN = re.compile(NAME)
_COLUMNS = rf"\s*{NAME}\s*(?:,\s*{NAME}\s*)*"


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names of the columns, folded as PostgreSQL folds them. Raises ValueError for
    anything but names separated by commas, such as an expression."""
    listed = text.strip()
    if listed.startswith("(") and listed.endswith(")"):
        listed = listed[1:-1]
    if re.fullmatch(_COLUMNS, listed) is None:
        raise ValueError(f'"{text}" is not a list of columns, such as "customer, placed"')
    return tuple(map(folded, _COLUMN.findall(listed)))


def columns_text(columns: Iterable[str]) -> str:
    """Return the text that :func:`columns_of` reads."""
    return ", ".join(map(quoted, columns))


_USED = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")


def has_variables(statement: str) -> bool:
    """Return whether a statement of a script uses a variable."""
    return _USED.search(statement) is not None


def shortened(statement: str, characters: int = 80) -> str:
    """Return a statement on one line, of at most so many characters."""
    text = " ".join(statement.split())
    return text if len(text) <= characters else text[: characters - 1] + "…"


def beginning(statement: str) -> str:
    """Return a statement up to its second parameter: lists of different lengths begin alike.

    The query by which many watch pg_stat_statements cuts at the first digit 2, which is the same
    where no name has one.
    """
    found = re.search(_SECOND_PARAMETER, statement)
    return statement if found is None else statement[: found.end()]
