"""The scripts of a capture: one for each kind of transaction.

Parameters of the same column, or of columns that refer to it, have the same value within a
transaction, and a row that was inserted is the one that later statements name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from pgdyno.clone.capture_file import (
    Capture,
    Column,
    Parameter,
    Statement,
    Step,
    Table,
    Transaction,
)
from pgdyno.clone.keys import Keys, Place
from pgdyno.clone.values import most_key, value_of

_PARAMETER = re.compile(r"\$(\d+)")
_RETURNING = re.compile(r"(?is).*\breturning\b(.+)$")
_OFTEN = 1.5
"""Executions in a transaction from which on a statement is repeated."""
_ALWAYS = 0.95
_SHARES = 1000
_ADDED = 100
_ARRAY = "[]"
_ELEMENTS, _ELEMENTS_MAX = 10, 1000
"""Values of an array of no column, and the highest number for a parameter of none: it may be an
element's."""
_TEXT_BYTES = 9


def script_of(capture: Capture, transaction: Transaction, keys: Keys) -> str:
    """Return the script of a transaction."""
    return _Script(capture, transaction, keys).text()


class _Script:
    """A script that is being written."""

    def __init__(self, capture: Capture, transaction: Transaction, keys: Keys) -> None:
        self._capture = capture
        self._transaction = transaction
        self._keys = keys
        self._variables: dict[tuple[Place, int], str] = {}
        """Variable with the key of a column, by the column and its turn within a statement."""
        self._returned: set[str] = set()
        """Variables with a value that a statement has returned, in place of a key."""
        self._added: set[str] = set()
        """Variables with the key of a row that the transaction inserts."""
        self._lines: list[str] = []
        self._rounds = False
        self._chances = 0

    def text(self) -> str:
        """Return the script."""
        steps = self._transaction.steps
        is_block = self._transaction.block or len(steps) > 1
        self._lines += ["begin;"] if is_block else []
        for times, group in groupby(enumerate(steps), lambda each: round(_times(each[1]))):
            self._write(list(group), times)
        self._lines += ["commit;"] if is_block else []
        return "\n".join(self._lines) + "\n"

    def _write(self, group: Sequence[tuple[int, Step]], times: int) -> None:
        if times > 1:
            self._lines.append(f"\\for round {times}")
            self._rounds, before = True, dict(self._variables)
        for place, step in group:
            self._write_step(place, step)
        if times > 1:
            self._lines.append("\\endfor")
            self._rounds, self._variables = False, before

    def _write_step(self, place: int, step: Step) -> None:
        statement = self._capture.statements[step.statement]
        is_chance = step.times < _ALWAYS
        text = self._with_variables(statement)
        if is_chance:
            self._chances += 1
            chance = f"chance_{self._chances}"
            self._lines.append(f"\\set {chance} random(1, {_SHARES})")
            self._lines.append(f"\\if :{chance} <= {max(1, round(step.times * _SHARES))}")
        captured = None if is_chance or self._rounds else self._captured(statement, place)
        self._lines.append(text + (f" \\gset s{place}_" if captured else ";"))
        if is_chance:
            self._lines.append("\\endif")
        if captured:
            self._variables[captured[0], 0] = f"s{place}_{captured[1]}"
            self._returned.add(f"s{place}_{captured[1]}")
            self._added.add(f"s{place}_{captured[1]}")

    def _captured(self, statement: Statement, place: int) -> tuple[Place, str] | None:
        """Return the key of the row that a statement inserts, and the name under which it returns
        it, if later statements name it."""
        returning = _RETURNING.match(statement.text)
        inserted = next((each for each in statement.parameters if each.use == "inserted"), None)
        table = None if inserted is None else self._keys.tables.get(inserted.table)
        if returning is None or table is None or not table.has_primary or len(table.keys[0]) > 1:
            return None
        (key,) = table.keys[0]
        if any(each.column == key for each in statement.parameters):
            return None
        name = _returned(returning[1], key)
        if name is None:
            return None
        own = (table.full_name, key)
        later = {
            self._keys.root((each.table, each.column))
            for step in self._transaction.steps[place + 1 :]
            for each in self._capture.statements[step.statement].parameters
            if each.table
        }
        return (own, name) if own in later else None

    def _with_variables(self, statement: Statement) -> str:
        """Set the variables of a statement; return its text with them."""
        values = [*self._values(statement)]

        def value(found: re.Match[str]) -> str:
            number = int(found[1]) - 1
            return values[number] if number < len(values) else found[0]

        return _PARAMETER.sub(value, statement.text)

    def _values(self, statement: Statement) -> Iterator[str]:
        """Yield a variable, or a literal, for each parameter."""
        turns: dict[Place, int] = {}
        for parameter in statement.parameters:
            table = self._keys.tables.get(parameter.table)
            column = None if table is None else table.column(parameter.column)
            if parameter.use in ("limit", "offset"):
                yield str(max(1, round(statement.rows)) if parameter.use == "limit" else 0)
            elif parameter.type.endswith(_ARRAY):
                yield self._array(parameter, statement, table, column)
            elif table is None or column is None:
                yield self._unknown(parameter)
            elif parameter.use == "added":
                yield self._set("amount", f"random(1, {_ADDED})")
            else:
                root = self._keys.root((table.full_name, column.name))
                turn = turns.get(root, 0)
                turns[root] = turn + 1
                key = self._key(parameter, table, column, root, turn)
                if key in self._returned:
                    yield f":{key}"
                    continue
                value = self._keys.value(root, f":{key}")
                if value == f":{key}" or _is_literal(value):
                    yield value
                else:
                    yield self._set(key.removesuffix("_key"), value)

    def _key(
        self, parameter: Parameter, table: Table, column: Column, root: Place, turn: int
    ) -> str:
        """Return the variable with the key of a parameter, which is set unless it was before."""
        if (known := self._variables.get((root, turn))) is not None:
            return known
        own = root == (table.full_name, column.name)
        key = next((each for each in table.keys if column.name in each), ())
        is_new = parameter.use == "inserted" and own and bool(key)
        if is_new:
            drawn = self._new(table, column, key)
        else:
            is_written = parameter.use in ("inserted", "set")
            frequent = self._keys.frequent(table, column) if is_written else ()
            drawn = self._keys.drawn((table.full_name, column.name), frequent)
        name = self._named(f"{root[0].rpartition('.')[2]}_{root[1]}_key")
        self._lines.append(f"\\set {name} {drawn}")
        self._variables[root, turn] = name
        if is_new:
            self._added.add(name)
        return name

    def _new(self, table: Table, column: Column, key: tuple[str, ...]) -> str:
        """Return the expression of a key that no row has; of parts of a new row, their number."""
        others = (self._keys.root((table.full_name, each)) for each in key if each != column.name)
        of_new_row = any(self._variables.get((each, 0)) in self._added for each in others)
        if of_new_row and self._rounds and column.name == key[-1]:
            return ":round"
        return f"random({self._keys.count((table.full_name, column.name)) + 1}, {most_key(column)})"

    def _unknown(self, parameter: Parameter) -> str:
        """Return a value of which only the type is known."""
        value = _of_type(parameter.type)
        return value if _is_literal(value) else self._set("value", value)

    def _array(
        self, parameter: Parameter, statement: Statement, table: Table | None, column: Column | None
    ) -> str:
        """Return an array, of as many values as rows were found, or of ``_ELEMENTS`` if it is of
        no column."""
        if table is None or column is None:
            value, count = _of_type(parameter.type.removesuffix(_ARRAY)), _ELEMENTS
        else:
            place = (table.full_name, column.name)
            value = self._keys.value(place, self._keys.drawn(place))
            count = max(1, min(_ELEMENTS_MAX, round(statement.rows)))
        if _is_literal(value):
            return "'{}'"
        name = self._named("several")
        self._lines.append(f"\\array {name} {count} {value}")
        return f":{name}"

    def _set(self, name: str, expression: str) -> str:
        """Set a new variable; return it as a statement has it."""
        name = self._named(name)
        self._lines.append(f"\\set {name} {expression}")
        return f":{name}"

    def _named(self, name: str) -> str:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"v_{plain}"
        taken = {line.split()[1] for line in self._lines if line.startswith(("\\set ", "\\array "))}
        number, free = 2, plain
        while free in taken:
            free, number = f"{plain}_{number}", number + 1
        return free


_BASES = {
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "boolean": "bool",
    "real": "float4",
    "double precision": "float8",
    "numeric": "numeric",
    "uuid": "uuid",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "interval": "interval",
    "json": "json",
    "jsonb": "jsonb",
}
"""Types of parameters by their names in SQL."""


def _returned(listed: str, key: str) -> str | None:
    """Return the name under which RETURNING has a column; None if it has not, or another than a
    variable can have."""
    found = re.search(rf"(?i)(?:^|,)\s*{re.escape(key)}(?:\s+as\s+(\w+))?\s*(?:,|$)", listed)
    if found is None and listed.strip() != "*":
        return None
    name = key if found is None else found[1] or key
    return name if re.fullmatch(r"\w+", name, re.ASCII) else None


_TEXTS = frozenset(("text", "character varying", "character", "name", "unknown", "bytea"))


def _of_type(type_: str) -> str:
    """Return the expression of a random value of a type; NULL for one that is not known."""
    base = "text" if type_ in _TEXTS else _BASES.get(type_)
    if base is None:
        return "null"
    column = Column(name="value", type=type_, base=base, width_bytes=_TEXT_BYTES)
    return value_of(Table("", "", 0, 0, (column,)), column, f"random(1, {_ELEMENTS})")


def _is_literal(value: str) -> bool:
    return value.startswith("'") or value == "null"


def _times(step: Step) -> float:
    return step.times if step.times >= _OFTEN else 1.0
