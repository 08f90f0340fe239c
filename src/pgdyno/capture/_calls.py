"""The columns of arguments of functions that statements call: those of the statements within, where
an argument's name stands for a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.capture._parameters import Unplannable, planned
from pgdyno.capture._tokens import Token, Unreadable, tokens_of
from pgdyno.clone.capture_file import Parameter, Table
from pgdyno.spec.sql_text import NAME, folded

if TYPE_CHECKING:
    import psycopg

_CALL = re.compile(rf"(?:{NAME}\s*\.\s*)?({NAME})\s*\(\s*([^()]*)\)")
_ARGUMENT = re.compile(r"\$(\d+)(?:::.*)?", re.DOTALL)
_BEGINS = frozenset(("select", "insert", "update", "delete", "with", "perform"))
_AFTER_INTO = frozenset(("from", "where", "order", "group", "limit", "for", "union"))
_INSERT_INTO = 2
"""Tokens before the INTO of an INSERT."""
_BODIES = b"""
select coalesce(proargnames, '{}')::pg_catalog.text[],
       coalesce(proargmodes::pg_catalog.text[], '{}'), prosrc
  from pg_catalog.pg_proc
 where proname operator(pg_catalog.=) %s and oid operator(pg_catalog.>=) 16384
 order by oid
"""


class _Body(Struct, frozen=True):
    """A function: its arguments in order, and its text."""

    arguments: tuple[str, ...]
    text: str

    def place_of(self, name: str) -> int | None:
        """Return the place of an argument by its name, or its number; None of a variable."""
        if name.startswith("$"):
            return int(name[1:]) - 1
        return self.arguments.index(name) if name in self.arguments else None


class Calls:
    """The functions of an empty schema."""

    def __init__(self, connection: psycopg.Connection, tables: Mapping[str, Table]) -> None:
        self._connection = connection
        self._tables = tables
        self._known: dict[str, list[_Body]] = {}

    def resolved(self, text: str, parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
        """Return the parameters of a statement; those that are arguments of functions with the
        columns of these."""
        found = [*parameters]
        for call in _CALL.finditer(text):
            given = [_ARGUMENT.fullmatch(each.strip()) for each in call[2].split(",")]
            for body in self._bodies(folded(call[1])):
                for place, used in self._used(body).items():
                    argument = given[place] if place < len(given) else None
                    number = int(argument[1]) - 1 if argument else len(found)
                    if number < len(found) and found[number].use == "other":
                        kind = found[number].type
                        found[number] = Parameter(kind, used.use, used.table, used.column)
        return tuple(found)

    def _bodies(self, name: str) -> list[_Body]:
        if name not in self._known:
            rows = self._connection.execute(_BODIES, (name,)).fetchall()
            self._known[name] = [
                _Body(tuple(_given(names, modes)), body) for names, modes, body in rows
            ]
        return self._known[name]

    def _used(self, body: _Body) -> dict[int, Parameter]:
        """Return the first column that each argument belongs to, by the argument's place."""
        found: dict[int, Parameter] = {}
        try:
            statements = [*_statements(body)]
        except Unreadable:
            return found
        for statement, names in statements:
            try:
                _, parameters = planned(self._connection, statement, self._tables)
            except Unplannable:
                continue
            for name, each in zip(names, parameters, strict=False):
                place = body.place_of(name)
                if place is not None and each.use != "other":
                    found.setdefault(place, each)
        return found


def _given(names: Sequence[str], modes: Sequence[str]) -> Iterator[str]:
    """Yield the names of arguments that a call has."""
    for place, name in enumerate(names):
        if place >= len(modes) or modes[place] in ("i", "b", "v"):
            yield name


def _statements(body: _Body) -> Iterator[tuple[str, list[str]]]:
    """Yield the statements of a body, with parameters in place of arguments and variables, and the
    names of these."""
    variables = {*body.arguments, *_declared(body.text)} - {""}
    part: list[Token] = []
    for token in (*tokens_of(body.text), Token("other", ";")):
        word = token.text.lower()
        if part and word in (";", "loop"):
            yield _with_parameters(part, variables)
            part = []
        elif token.kind != "comment" and (part or word in _BEGINS):
            part.append(token)


def _with_parameters(part: Sequence[Token], variables: set[str]) -> tuple[str, list[str]]:
    """Return a statement with parameters, without INTO, and the names of the parameters."""
    names: list[str] = []
    written: list[str] = []
    skips, before = False, ""
    is_insert = part[0].text.lower() == "insert"
    for token in part:
        word = token.text.lower()
        is_variable = token.kind in ("word", "name") and folded(token.text) in variables
        if word == "into" and not (is_insert and len(written) <= _INSERT_INTO):
            skips = True
        elif word in _AFTER_INTO:
            skips = False
        if skips:
            continue
        if token.kind == "parameter" or (is_variable and before != "."):
            name = token.text if token.kind == "parameter" else folded(token.text)
            if name not in names:
                names.append(name)
            written.append(f"${names.index(name) + 1}")
        else:
            written.append("select" if word == "perform" else token.text)
        before = token.text
    return "".join(written), names


def _declared(body: str) -> set[str]:
    """Return the variables that a body declares."""
    found = re.search(r"(?is)\bdeclare\b(.*?)\bbegin\b", body)
    lines = found[1].split(";") if found else []
    return {folded(name[0]) for each in lines if (name := re.match(rf"\s*({NAME})", each))}
