"""An index in a spec or a change: names of columns, or the text that CREATE INDEX has behind the
table, as ``using gin (document)``.
"""

from __future__ import annotations

import re

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
_TITLES = {"gin": "GIN", "gist": "GiST", "spgist": "SP-GiST", "brin": "BRIN"}


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


def trial_statements(table: str, text: str) -> tuple[str, str]:
    """Return the statements that create an index to try it, and drop it again. Of its name the
    server keeps the first 63 bytes each time."""
    schema, _, name = table.rpartition(".")
    read = index_text(text)
    index = "_".join(("pgdyno", name, *read.words))
    make = f"create index {quoted(index)} on {relation(table)} {read.sql}"
    return make, f"drop index {relation(f'{schema}.{index}' if schema else index)}"


def _is_closed(keys: str) -> bool:
    """True if a text ends no statement, and no parenthesis that it did not begin."""
    depth = 0
    for letter in re.sub(QUOTED, "", keys):
        depth += (letter == "(") - (letter == ")")
        if depth < 0 or letter in "';\"":
            return False
    return depth == 0 and keys.strip() != ""
