"""The values that a script gives to the parameters of its statements.

Parameters of the same column, or of columns that refer to it, have the same value within a
transaction, and a row that was inserted is the one that later statements name.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from pgdyno.clone._drawing import Drawing, short
from pgdyno.clone._lines import Lines
from pgdyno.clone._rounds import Rounds
from pgdyno.clone._shares import on_average, values_of
from pgdyno.clone._turns import Turns
from pgdyno.clone.capture_file import SHORTENED, Column, Parameter, Statement, Table
from pgdyno.clone.keys import Keys, Place
from pgdyno.clone.limits import is_whole, least_limit, limited
from pgdyno.clone.outputs import returned_arrays
from pgdyno.clone.schema import sequence_of
from pgdyno.clone.values import (
    DOCUMENTS,
    RANGES,
    elements_of,
    follows_keys,
    most_key,
    value_of,
)
from pgdyno.spec.change import first_word
from pgdyno.spec.sql_text import NAME, folded, literal

_ADDED = 100
_ARRAY = "[]"
_BOUNDS = ("least", "most")
_SHORTENED = re.compile(rf"\$(\d+) *{re.escape(SHORTENED)}")
_LIST_MIN, _LIST_MAX = 2, 100
"""Values of a list that the server has shortened: it leaves one that has a single value."""
_VARIABLE = re.compile(r":\w+")
_SET = re.compile(r"(?i)\bset\b")
_REPLACING = re.compile(r"(?i)[<>]=?\s*\(*\$(\d+)\)*\s+then\s+\(*\$(\d+)")
"""Two parameters, of which the second one replaces a value that is compared with the first."""
_UNION = re.compile(r"(?i)\bunion\b")
_GROUPED = re.compile(rf"(?i)\bgroup\s+by\s+(?:{NAME}\s*\.\s*)?({NAME})?")
_PARTS = re.compile(
    r"(?i)(?P<query>\(\s*(?:select|with|insert|update|delete)\b)|(?P<open>\()|(?P<close>\))|\$(\d+)"
)
"""Beginnings of queries within others, parentheses, and parameters."""
_RANGE = 20
"""Keys in a range, if the rows of the statement do not tell it."""
_ELEMENTS, _ELEMENTS_MAX = 10, 1000
"""Values of an array of no column, and the highest number for a parameter of none: it may be an
element's."""
_FEW_PAGES = 0.5
"""Part of the pages that another statement with such an array reads below which one has fewer
values: to find one takes up to twice the pages in a larger table."""
_TEXT_BYTES = 9
_NO_TABLE = Table("", "", 0, 0, ())
_RELATION = "regclass"
_KEY = "'w'"
"""Of a document's part that a statement sets: another one than documents are made with."""
_WITH_PARTS = ("document_of(", "array_of(", "range_of(")
"""Values that an array would have to quote."""


_EVEN = 0.05
"""Part by which a mean number may differ from a whole one that stands for it."""

_ROOM = 4
"""Times the rows of a call that a LIMIT has which hardly ever ends them."""
_NEAR = 1.1
"""Times the rows of a call that values of a clone may have if they decide these."""


class _Range(Struct, frozen=True):
    """A range of which one bound is given."""

    bound: str
    """Variable with the key that is the last one within."""
    width: str
    """Keys within: a number or a variable."""


class Arguments:
    """The values of one transaction's parameters, as variables that its lines set."""

    def __init__(
        self,
        statements: Sequence[Statement],
        keys: Keys,
        lines: Lines,
        later: Sequence[Statement] = (),
    ) -> None:
        self._statements = statements
        self._keys = keys
        self._lines = lines
        self._drawing = Drawing(statements, keys, lines, later)
        self._arrays: dict[Place, str] = {}
        """Variable with keys of a column."""
        self._made: dict[str, str] = {}
        """Variable with the value of an expression."""
        self._returned: set[str] = set()
        """Variables with a value that a statement has returned, in place of a key."""
        self._of_rows: dict[Place, str] = {}
        """Variable with the values of all rows that a statement has found."""
        self._emptied: set[Place] = set()
        """Columns by which the transaction has deleted rows, other than a single one."""

    @contextmanager
    def rounds(self, rounds: Rounds) -> Iterator[None]:
        """Keep the variables that are set meanwhile within so many rounds."""
        drawing = self._drawing
        before = dict(drawing.variables), dict(self._arrays), dict(self._made)
        once, drawing.rounds = drawing.rounds, rounds
        drawing.before_rounds = frozenset(drawing.variables.values())
        yield
        drawing.before_rounds = frozenset()
        drawing.rounds, (drawing.variables, self._arrays, self._made) = once, before

    def executed_in(self, least: float, most: float) -> None:
        """Have the transactions between two shares execute the statement that comes next."""
        self._drawing.spans.now = (least, most)

    def has(self, place: Place) -> bool:
        """Return whether statements have named a row by this key already."""
        return (place, 0) in self._drawing.variables

    def has_text_of_server(self, statement: Statement) -> bool:
        """Return whether a statement has a value that another one has returned, and that is no
        number: it can be in no expression."""
        return any(
            self._drawing.variables.get((self._keys.root((each.table, each.column)), 0))
            in self._returned
            and each.type not in _WHOLE_NUMBERS
            for each in statement.parameters
            if each.table in self._keys.tables
        )

    def there(self, root: Place) -> str:
        """Return the value of a key of a row that is there: that of the row that was named before,
        or of another."""
        known = self._drawing.variables.get((root, 0))
        if known in self._returned:
            return f":{known}"
        return self._keys.value(root, f":{known}" if known else self._keys.drawn(root))

    def returned(self, place: Place, name: str, *, is_added: bool) -> None:
        """Have a variable with the key of a row that a statement has added, or found."""
        self._drawing.returned(place, name, is_added=is_added)
        self._returned.add(name)

    def returned_rows(self, arrays: Mapping[Place, str]) -> None:
        """Have variables with columns of the rows that a statement has found."""
        self._of_rows |= arrays

    def of(self, statement: Statement) -> list[str]:
        """Return a variable, or a literal, for each parameter of a statement."""
        values = [*self._values(statement)]
        if first_word(statement.text) == "delete":
            places = {(each.table, each.column) for each in statement.parameters if each.table}
            keys = (
                {(table, name) for name in key}
                for table, _ in places
                for key in self._keys.tables[table].keys
            )
            self._emptied |= places if not any(each <= places for each in keys) else set()
        return values

    def _values(self, statement: Statement) -> Iterator[str]:
        """Yield a variable, or a literal, for each parameter."""
        turns, places = Turns(self._keys), Counter[Place]()
        queries = queries_of(statement.text)
        bounds: dict[Place, _Range] = {}
        lists = {int(each) for each in _SHORTENED.findall(statement.text)}
        of_rows = self._of_rows if compares_rows(statement, self._of_rows) else {}
        replacing, given = _replacing(statement), dict[int, str]()
        for number, parameter in enumerate(statement.parameters, 1):
            table = self._keys.tables.get(parameter.table)
            column = None if table is None else table.column(parameter.column)
            if parameter.use in ("limit", "offset"):
                yield str(self._limit(statement, number) if parameter.use == "limit" else 0)
            elif (part := self._part(parameter, column)) is not None:
                yield part
            elif parameter.use == "compared" and (parameter.table, parameter.column) in of_rows:
                place = parameter.table, parameter.column
                places[place] += 1
                yield self._once(short(place), f":{of_rows[place]}[{places[place]}]")
            elif parameter.type.endswith(_ARRAY) and (column is None or column.base != "array"):
                yield self._array(statement, parameter, table, column)
            elif parameter.use in _BOUNDS and column is None:
                yield self._number(statement.rows) if parameter.use == "most" else "1"
            elif table is None or column is None:
                count = _LIST_MIN if number in lists else 1
                yield ", ".join(self._unknown(parameter) for _ in range(count))
            elif parameter.use == "added":
                yield self._amount(statement)
            elif parameter.use in _BOUNDS and follows_keys(column):
                yield self._bound(statement, number, column, bounds)
            elif (compared := given.get(replacing.get(number, 0))) is not None:
                yield compared
            else:
                place = (table.full_name, column.name)
                root = self._keys.root(place)
                count = self._listed(statement, place) if number in lists else 1
                # Rows take the place of those that were deleted.
                is_inserted = parameter.use == "inserted"
                turn = 0
                if not (is_inserted and place in self._emptied):
                    query = queries.get(number, 0)
                    turn = turns.next(place, query, count=count, is_inserted=is_inserted)
                if (root, turn) not in self._drawing.variables and self._keys.is_null(
                    table, column
                ):
                    yield "null"
                    continue
                keys = (
                    self._drawing.of(statement, parameter, column, each)
                    for each in range(turn, turn + count)
                )
                given[number] = ", ".join(self._value(root, each) for each in keys)
                yield given[number]

    def _amount(self, statement: Statement) -> str:
        """Return a number that is added to a value. One beside a bound that a statement compares,
        which has as many rows as they find already, moves it nowhere."""
        if not _SET.search(statement.text):
            return "0"
        return f":{self._lines.set('amount', f'random(1, {_ADDED})')}"

    def _value(self, root: Place, key: str) -> str:
        """Return the value of a variable with a key."""
        value = self._keys.value(root, f":{key}")
        if key in self._returned or value == f":{key}":
            return f":{key}"
        if _is_literal(value):
            return value
        return self._once(key.replace("_key", "", 1), value)

    def _once(self, name: str, value: str) -> str:
        """Return the variable with the value of an expression."""
        if value not in self._made:
            self._made[value] = self._lines.set(name, value)
        return f":{self._made[value]}"

    def _listed(self, statement: Statement, place: Place) -> int:
        """Return how many values of a column a list has, by the rows that the statement finds."""
        if statement.aggregates:
            return _ELEMENTS
        rows_each = self._keys.rows(self._keys.tables[place[0]]) / self._keys.used(place)
        return max(_LIST_MIN, min(_LIST_MAX, round(statement.rows / max(1.0, rows_each))))

    def _bound(
        self, statement: Statement, number: int, column: Column, bounds: dict[Place, _Range]
    ) -> str:
        """Return a bound, the parameter of this number, of a range with as many rows as the
        statement finds; beside a key, which decides them by itself, of one that has all values.
        ``bounds`` are the ranges of the statement's bounds before it."""
        parameter = statement.parameters[number - 1]
        place, is_least = (parameter.table, column.name), parameter.use == "least"
        outwards = 1 if _is_outside(statement.text, number) else 0
        table = self._keys.tables[place[0]]
        if any(statement.compared_with(table).issuperset(each) for each in table.keys):
            key = str(1 - outwards if is_least else most_key(column))
        elif (other := bounds.get(place)) is not None:
            key = f":{other.bound} {'-' if is_least else '+'} {_less(other.width, 1 - outwards)}"
        else:
            rows = self._rows_of_query(statement, number)
            keys, count = self._width(statement, place, rows), self._keys.count(place)
            width = self._number(keys)
            both = sum(each.use in _BOUNDS for each in statement.parameters) > 1
            limited = any(each.use == "limit" for each in statement.parameters)
            if both or limited:
                least, most = ("1", _less(f"{count + 1}", width)) if is_least else (width, count)
                drawn = f"random({least}, {most})"
            elif keys >= count and not is_least:  # New rows are within, too.
                drawn = str(most_key(column))
            else:
                drawn = _less(f"{count + 1}", width) if is_least else width
            bounds[place] = _Range(self._lines.set(f"{short(place)}_bound", drawn), width)
            shift = f" {'-' if is_least else '+'} 1" if outwards else ""
            key = f":{bounds[place].bound}{shift}"
        value = self._keys.value(place, key)
        return value if _VARIABLE.fullmatch(value) else f":{self._lines.set('bound', value)}"

    def _limit(self, statement: Statement, number: int) -> int:
        """Return a LIMIT, the parameter of this number, with which a statement finds its rows:
        their number, unless a range of its query with both bounds, or the values that this
        compares, decide it, and not the same one each time."""
        rows, by_use = statement.rows, defaultdict(set)
        queries = queries_of(statement.text)
        for place, each in enumerate(statement.parameters, 1):
            if queries.get(place) == queries.get(number):
                by_use[each.use].add((each.table, each.column))
        if is_whole(rows):
            return max(1, round(rows))
        if by_use["least"] & by_use["most"]:
            return _ROOM * max(1, round(rows))
        compared = [each for each in by_use["compared"] if each[0] in self._keys.tables]
        if len({table for table, _ in compared}) == 1:
            values = math.prod(map(self._keys.used, compared))
            most = self._keys.rows(self._keys.tables[compared[0][0]]) / values
            if limited(most, least_limit(rows)) <= _NEAR * rows:
                return least_limit(rows)
        return max(1, round(rows))

    def _rows_of_query(self, statement: Statement, number: int) -> float:
        """Return the rows that a query of a statement finds, the one that a parameter is in: those
        that a LIMIT of another one leaves, if UNION puts both together."""
        queries = queries_of(statement.text)
        limits = {
            queries.get(place): self._limit(statement, place)
            for place, each in enumerate(statement.parameters, 1)
            if each.use == "limit"
        }
        if queries.get(number) in limits or _UNION.search(statement.text) is None:
            return statement.rows
        return max(0.0, statement.rows - sum(limits.values()))

    def _width(self, statement: Statement, place: Place, found: float) -> float:
        """Return how many keys of a column are in a range with so many rows that are found, of
        which other conditions of the statement leave a part."""
        table, count = self._keys.tables[place[0]], self._keys.count(place)
        keys_with = [key for key in table.keys if place[1] in key]
        grouped = _GROUPED.search(statement.text)
        # Each of its own values is a group.
        is_counted = statement.aggregates or (grouped and folded(grouped[1]) != place[1])
        rows = max(float(_RANGE), found) if is_counted else found
        keys = rows if keys_with else rows * count / max(1, self._keys.rows(table))
        others = {
            each
            for each in statement.compared_with(table) - {place[1]}
            if not statement.aggregates and not any(each in key for key in keys_with)
        }
        keys *= math.prod(self._keys.count((place[0], each)) for each in others)
        lists = (each for each in _lists(statement) if each[0] == place[0] and each[1] in others)
        return min(count, keys / math.prod(self._listed(statement, each) for each in lists))

    def _number(self, mean: float) -> str:
        """Return a whole number, or a variable with one that is ``mean`` on average."""
        if abs(mean - round(mean)) <= _EVEN * mean:
            return str(round(mean))
        return f":{self._lines.set('number', on_average(mean))}"

    def _unknown(self, parameter: Parameter) -> str:
        """Return a value of which only the type is known; of relations, the name of a sequence."""
        value = self._sequence() if parameter.type == _RELATION else _of_type(parameter.type)
        return value if _is_literal(value) else f":{self._lines.set('value', value)}"

    def _sequence(self) -> str:
        tables = self._keys.tables.values()
        names = (sequence_of(table, column) for table in tables for column in table.columns)
        return next((literal(each) for each in names if each is not None), "null")

    def _part(self, parameter: Parameter, column: Column | None) -> str | None:
        """Return a part of a value that a statement looks for, or adds: an element of an array, or
        what makes no document longer each time. None for other parameters."""
        if column is not None and column.base == "array" and parameter.use in ("compared", "added"):
            return self._element(column, is_array=parameter.type.endswith(_ARRAY))
        if column is None or column.base not in DOCUMENTS or parameter.use != "added":
            return None
        if parameter.type in DOCUMENTS:
            value = value_of(_NO_TABLE, column, f"random(1, {_ELEMENTS})")
            return f":{self._lines.set('document', value)}"
        return _KEY if parameter.type in _TEXTS else self._unknown(parameter)

    def _element(self, column: Column, *, is_array: bool) -> str:
        elements = elements_of(column)
        if elements is None:
            return "'{}'" if is_array else "null"
        if is_array:
            return f":{self._lines.array('several', 1, elements.drawn())}"
        return f":{self._lines.set('element', elements.drawn())}"

    def _array(
        self,
        statement: Statement,
        parameter: Parameter,
        table: Table | None,
        column: Column | None,
    ) -> str:
        """Return an array, of as many values as rows are found on average, or of ``_ELEMENTS`` if
        it is of no column; of as many as others change, of the rows that are found. Within a
        transaction there is one for the same keys."""
        if table is None or column is None:
            return self._several(_of_type(parameter.type.removesuffix(_ARRAY)), _ELEMENTS)
        place = (table.full_name, column.name)
        root = self._keys.root(place)
        part = self._part_of_list(statement, root)
        if part == 1 and (known := self._arrays.get(root)) is not None:
            return known
        turns = [name for (of, _), name in self._drawing.variables.items() if of == root]
        arrays = returned_arrays(statement, self._keys)
        changing = (each for each in self._statements if compares_rows(each, arrays))
        changed = max((values_of(each, place) for each in changing), default=1)
        count = max(changed, min(_ELEMENTS_MAX, self._rows_most(root)))
        key = self._keys.drawn(place)
        if count > 1 and len(turns) > 1:
            count = min(count, len(turns))
            cases = (f"when :row = {number} then :{name}" for number, name in enumerate(turns))
            key = f"case {' '.join(cases)} end"
        name = self._several(self._keys.value(place, key), part * count)
        if part == 1:
            self._arrays[root] = name
        return name

    def _with_list(self, root: Place) -> Iterator[Statement]:
        """Yield the statements with an array of these keys."""
        for statement in self._statements:
            arrays = (each for each in statement.parameters if each.type.endswith(_ARRAY))
            places = [(each.table, each.column) for each in arrays if each.table]
            if any(self._keys.root(each) == root for each in places):
                yield statement

    def _rows_most(self, root: Place) -> float:
        """Return the rows of a call of the statement with an array of these keys that finds most:
        others find a part of them, or count them, which tells nothing."""
        found = (each.rows for each in self._with_list(root) if not each.aggregates)
        return max(found, default=_ELEMENTS)

    def _part_of_list(self, statement: Statement, root: Place) -> float:
        """Return the part of an array of these keys that a statement has which counts what it
        finds: that of the pages, if it reads far fewer than another one with such an array."""
        pages = statement.pages if statement.aggregates else None
        most = max((each.pages or 0.0 for each in self._with_list(root)), default=0.0)
        return pages / most if pages and pages < _FEW_PAGES * most else 1.0

    def _several(self, value: str, count: float) -> str:
        if _is_literal(value) or value.startswith(_WITH_PARTS):
            return "'{}'"
        return f":{self._lines.array('several', self._number(count), value)}"


def _lists(statement: Statement) -> Iterator[Place]:
    """Yield the columns that a statement compares with lists that the server has shortened."""
    for number in map(int, _SHORTENED.findall(statement.text)):
        parameter = statement.parameters[number - 1]
        if parameter.table and parameter.use == "compared":
            yield parameter.table, parameter.column


def compares_rows(statement: Statement, arrays: Container[Place]) -> bool:
    """Return whether a statement finds rows by several columns, all of them among those of rows
    that another has found: it changes what is still as it was then."""
    compared = {(p.table, p.column) for p in statement.parameters if p.use == "compared"}
    return len(compared) > 1 and all(each in arrays for each in compared)


def queries_of(text: str) -> dict[int, int]:
    """Return the query that each parameter of a statement is in: 0, or the number of one within. A
    column has the same value in all, as in statements that follow each other."""
    found: dict[int, int] = {}
    around, count = [0], 0
    for part in _PARTS.finditer(text):
        if part["close"]:
            around = around[:-1] or [0]
        elif part["query"] or part["open"]:
            count += bool(part["query"])
            around.append(count if part["query"] else around[-1])
        else:
            found.setdefault(int(part[4]), around[-1])
    return found


def _replacing(statement: Statement) -> dict[int, int]:
    """Return the parameters that a column is set to where it is compared with another one, by
    their numbers: the value is the same, ``CASE WHEN c < $1 THEN $2``."""
    places = {
        number: (each.table, each.column)
        for number, each in enumerate(statement.parameters, 1)
        if each.use == "set"
    }
    both = (map(int, each) for each in _REPLACING.findall(statement.text))
    return {
        new: compared
        for compared, new in both
        if new in places and places[new] == places.get(compared)
    }


def _is_outside(text: str, number: int) -> bool:
    """Return whether a bound, the parameter of this number, is not in its range itself."""
    return re.search(rf"[<>]\s*\(*\${number}(?!\d)|\${number}\)*\s*[<>](?!=)", text) is not None


def _less(one: str, other: str | int) -> str:
    """Return the difference of two numbers, each of which may be a variable."""
    if one.isdigit() and str(other).isdigit():
        return str(int(one) - int(other))
    return f"({one} - {other})" if other else one


_BASES = {
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
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
    **{each: each for each in RANGES},
}
"""Types of parameters by their names in SQL."""
_WORDS = {"regconfig": "simple", '"char"': "A", "boolean": "false"}
"""A value of a type that has few: text search configurations, weights in a vector, and flags that
are not set."""
_WHOLE_NUMBERS = ("smallint", "integer", "bigint")
_TEXTS = frozenset(("text", "character varying", "character", "name", "unknown", "bytea"))


def _of_type(type_: str) -> str:
    """Return the expression of a random value of a type; NULL for one that is not known."""
    if type_ in _WORDS:
        return literal(_WORDS[type_])
    base = "text" if type_ in _TEXTS else _BASES.get(type_)
    if base is None:
        return "null"
    column = Column(name="value", type=type_, base=base, width_bytes=_TEXT_BYTES)
    return value_of(_NO_TABLE, column, f"random(1, {_ELEMENTS})")


def _is_literal(value: str) -> bool:
    return value.startswith("'") or value == "null"
