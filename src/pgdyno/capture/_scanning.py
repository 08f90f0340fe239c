"""A search in a capture for values of its source, in plain text, base64 and hexadecimal."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pgdyno.capture._code import LANGUAGE, names_in
from pgdyno.clone import Capture
from pgdyno.errors import SetupError
from pgdyno.numbers import counted

VALUE_CHARACTERS_MIN = 4
"""Shorter values are found everywhere."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def check_values(found: Capture, values: Iterable[str]) -> None:
    """Raise SetupError if a capture has values of its source."""
    names = [
        name
        for table in found.tables
        for name in (table.schema, table.name, *(column.name for column in table.columns))
    ]
    # Settings, waits and findings are words of PostgreSQL's and pgdyno's own.
    source = replace(found.source, waits=None, findings=None)
    content = msgspec.json.encode(replace(found, settings={}, source=source)).decode()
    code = [each.sql for each in found.functions]
    code += [each.sql for each in found.views]
    code += [each for table in found.tables for each in (*table.triggers, *table.checks)]
    code += [column.generated for table in found.tables for column in table.columns]
    words = {word for each in found.statements for word in each.text.split()}
    words |= LANGUAGE.union(*map(names_in, code))
    if leaked := values_in(content, values, [*names, *words]):
        raise SetupError(
            f"the capture would have {counted(len(leaked), 'value', 'values')} of the database,"
            " and is not written",
            code="capture-values",
            hint="report it as a defect of pgdyno, without the values",
        )


def values_in(content: str, values: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the values that a content has, without those that are names of the schema.

    Numbers are not looked for: sizes and rates are numbers too.
    """
    words = set(re.findall(r"\w+", content))
    known = {each.lower() for each in names}
    return [each for each in values if each.lower() not in known and _is_in(content, words, each)]


def _is_in(content: str, words: set[str], value: str) -> bool:
    if _NUMBER.fullmatch(value):
        return False
    coded = value.encode()
    plain = value in words if re.fullmatch(r"\w+", value) else value in content
    return plain or coded.hex() in content or base64.b64encode(coded).decode() in content
