"""The indexes of a table in a spec or a change, separated by semicolons: each is names of columns,
or the text that CREATE INDEX has behind the table, as ``using gin (document)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from pgdyno.spec.sql_text import (
    NAME,
    QUOTED,
    columns_of,
    columns_text,
    on_one_line,
    quoted,
    relation,
)

BTREE = "btree"
_BEHIND_TABLE = re.compile(rf"(?is)\s*(?:using\s+({NAME})\s*)?\((.*)\)\s*")
_PIECE = re.compile(rf"{QUOTED}|.")
_TITLES = {"gin": "GIN", "gist": "GiST", "spgist": "SP-GiST", "brin": "BRIN"}
_EXTENSIONS = {"gin_trgm_ops": "pg_trgm", "gist_trgm_ops": "pg_trgm"}
"""Operator class → the extension that it is of."""


class IndexText(Struct, frozen=True):
    """The method of an index, and its keys as SQL has them."""

    keys: str
    method: str = BTREE
    columns: tuple[str, ...] = ()
    """Names of the keys, as the server stores them, if they are columns and nothing else."""

    @property
    def sql(self) -> str:
        """The text that CREATE INDEX has behind the table."""
        keys = on_one_line(self.keys)
        return f"({keys})" if self.columns else f"using {self.method} ({keys})"

    @property
    def text(self) -> str:
        """The text that :func:`index_text` reads."""
        return self.keys if self.columns else self.sql

    @property
    def title(self) -> str:
        """A phrase such as ``index on customer, placed`` or ``GIN index on document``."""
        method = "" if self.method == BTREE else f"{_TITLES.get(self.method, self.method)} "
        return f"{method}index on {self.keys}"

    @property
    def words(self) -> tuple[str, ...]:
        """Parts of a name for it."""
        if self.columns:
            return self.columns
        method = () if self.method == BTREE else (self.method,)
        return (*method, *re.findall(r"\w+", self.keys))

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions that it needs."""
        words = () if self.columns else self.words
        return tuple(sorted({_EXTENSIONS[word] for word in words if word in _EXTENSIONS}))

    @property
    def extension_statements(self) -> tuple[str, ...]:
        """Statements that make these extensions where they are not there."""
        return tuple(f"create extension if not exists {each}" for each in self.extensions)


def index_text(text: str) -> IndexText:
    """Read an index. Raises ValueError for anything but columns separated by commas, or keys in
    parentheses with a method before them."""
    try:
        columns = columns_of(text)
    except ValueError:
        found = _BEHIND_TABLE.fullmatch(text)
        if found is None or not _is_closed(found[2]):
            raise ValueError(
                f'"{text}" is no index: neither columns, such as "customer, placed", nor a method'
                ' with keys, such as "using gin (document)" or "using btree (lower(email))"'
            ) from None
        return IndexText(found[2].strip(), (found[1] or BTREE).lower())
    return IndexText(columns_text(columns), columns=columns)


def separated(text: str) -> list[str]:
    """Return the texts of the indexes of one table."""
    parts = [""]
    for piece in _PIECE.findall(text):
        if piece == ";":
            parts.append("")
        else:
            parts[-1] += piece
    return [part for each in parts if (part := each.strip())]


def checked(text: str) -> str:
    """Return the text of the indexes of one table in its usual form. Raises ValueError as
    :func:`index_text` does."""
    return together(*(index_text(part).text for part in separated(text) or [text]))


def together(*texts: str) -> str:
    """Return the indexes of one table in several texts as one text, each of them once."""
    return "; ".join(dict.fromkeys(part for text in texts for part in separated(text)))


def by_table(indexes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the text of each table's indexes, each of them once; the reverse of
    :func:`each_index`."""
    found: dict[str, str] = {}
    for table, text in indexes:
        found[table] = together(found.get(table, ""), text)
    return found


def each_index(indexes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the table and the text of each index of several tables."""
    return ((table, part) for table, text in indexes.items() for part in separated(text))


def trial_statements(table: str, text: str) -> tuple[tuple[str, ...], str]:
    """Return the statements that create an index to try it, and the one that drops it again; an
    extension stays. Of its name the server keeps the first 63 bytes each time."""
    schema, _, name = table.rpartition(".")
    read = index_text(text)
    index = "_".join(("pgdyno", name, *read.words))
    make = f"create index {quoted(index)} on {relation(table)} {read.sql}"
    drop = f"drop index {relation(f'{schema}.{index}' if schema else index)}"
    return (*read.extension_statements, make), drop


def _is_closed(keys: str) -> bool:
    """True if a text ends no statement, and no parenthesis that it did not begin."""
    depth = 0
    for letter in re.sub(QUOTED, "", keys):
        depth += (letter == "(") - (letter == ")")
        if depth < 0 or letter in "';\"":
            return False
    return depth == 0 and keys.strip() != ""
