"""The keys that the statements of a transaction name: of rows that are there, as the source's
statements found them, and of rows that they add.

A key is an expression of the script language (``keys.py``). It is drawn once for a transaction;
later statements name the same row by its variable.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdyno.clone._following import following
from pgdyno.clone._lines import Lines
from pgdyno.clone._pairs import PairedKey
from pgdyno.clone._paths import STEP
from pgdyno.clone._rounds import Rounds
from pgdyno.clone._shares import (
    ALWAYS,
    FOUND,
    by_references,
    found_share,
    found_together,
    mixed,
    must_be_new,
    new_keys,
    new_share,
    only_grows,
    skews,
    values_of,
    wants_unset,
)
from pgdyno.clone._spans import Spans
from pgdyno.clone.capture_file import WRITING, Column, Parameter, Statement, Table, Use
from pgdyno.clone.keys import GROWING_MIN, Keys, Place
from pgdyno.clone.values import is_text, most_key
from pgdyno.spec.change import first_word
from pgdyno.spec.sql_text import NAME, folded

_CONFLICT_KEY = re.compile(r"(?i)\bon\s+conflict\s*\(([^()]*)\)")
_ROW = re.compile(r":row\b")
_BESIDE_ROWS: tuple[Use, ...] = ("limit", "offset", "set", "added")
"""Uses of values that do not decide which rows a statement finds."""
_SET_FLAG = "2"
"""Key of a flag that is set."""
_FREE_MIN = 100
_FEW = 20
"""Keys up to which those of a list would be the same now and then."""
_START = "abs(mod(hash(:random_seed + :client_id), {}))"
"""A place of a session's own in each load."""


class Drawing:
    """The variables with keys of one transaction."""

    def __init__(
        self,
        statements: Sequence[Statement],
        keys: Keys,
        lines: Lines,
        later: Sequence[Statement] = (),
    ) -> None:
        self._same: defaultdict[str, list[Statement]] = defaultdict(list)
        """Statements that are the same but for their number of rows."""
        for each in statements:
            self._same[each.without_rows].append(each)
        self._keys = keys
        self._lines = lines
        self.variables: dict[tuple[Place, int], str] = {}
        """Variable with the key of a column, by the column and its turn within a statement."""
        self.rounds = Rounds(1, "1")
        """Of the loop in which the statements are executed."""
        self.before_rounds: frozenset[str] = frozenset()
        """Variables that were set before that loop."""
        self.spans = Spans()
        self._new: set[str] = set()
        """Variables with the key of a row that the transaction adds, or that is not there."""
        self._returned: set[str] = set()
        """Those of rows that are there: a statement has returned them."""
        self._written: dict[str, Statement] = {}
        """Variable with a value of a column that is no key → the statement that has written it."""
        self._put: dict[tuple[Place, int], str] = {}
        """Variable with the key of a column in the row that the transaction has put there."""
        self._together = found_together(later)
        """Most rows that what follows finds by one value of a column."""
        self._later = new_keys(later, keys.tables)
        """Keys of rows that it adds: references without a constraint may name them before."""
        self._filled: set[str] = set()
        """Tables to which the transaction has added rows."""
        self._rows: dict[str, str] = {}
        """Table → variable with the number of a row, from 0."""
        self._skews = dict(skew for each in statements for skew in skews(each, keys))
        """Exponents of the rows that the transaction updates, by table."""
        self._most: dict[Place, int] = {}
        """Keys of those to which rows refer that the transaction finds by them."""
        for place, used in (each for of in statements for each in by_references(of, keys)):
            root = keys.root(place)
            self._most[root] = min(used, self._most.get(root, used))
        self._pairs = dict.fromkeys(
            each.pair
            for statement in statements
            if statement.rows >= FOUND
            for each in self._named_pairs(statement)
        )
        """Pairs of which the transaction names both columns, and finds rows."""

    def returned(self, place: Place, name: str, *, is_added: bool) -> None:
        """Have a variable with the key of a row that a statement has added, or found."""
        self.variables[place, 0] = name
        self._new.add(name)
        self._returned |= set() if is_added else {name}

    def of(self, statement: Statement, parameter: Parameter, column: Column, turn: int) -> str:
        """Return the variable with the key of a parameter: it finds what was put there before."""
        place = (parameter.table, column.name)
        put = self._put.get((place, turn)) if parameter.use == "compared" else None
        if put is not None and not self._reads_again(statement, put):
            return put
        name = self._of(statement, parameter, column, turn)
        is_once = parameter.use == "inserted" and self.rounds.most == 1
        if is_once and self._keys.root(place) != place:
            self._put[place, turn] = name
        return name

    def _of(self, statement: Statement, parameter: Parameter, column: Column, turn: int) -> str:
        """Return the variable with the key of a row by the columns that refer to each other."""
        place = (parameter.table, column.name)
        root, table = self._keys.root(place), self._keys.tables[parameter.table]
        if parameter.use == "inserted" and turn <= self._repeated(statement, table, column):
            turn = 0
        is_single = must_be_new(statement, parameter, table)
        is_added = self.variables.get((root, turn)) in self._new - self._returned
        kept = place if is_added and self._is_older(statement, parameter) else root
        if self._finds_nothing(statement, parameter, table, column):
            least = self._keys.count(place) + 1
            return self._lines.set(f"{short(root)}_key", f"random({least}, {most_key(column)})")
        if parameter.use == "inserted" and only_grows(statement, column):
            grown = replace(column, correlation=1.0)
            drawn = self._following(statement, place, grown, turn)
            return self._lines.set(f"{short(place)}_key", drawn)
        if self._reads_again(statement, self.variables.get((kept, turn))):
            del self.variables[kept, turn]
        drawn_before = self._earlier(statement, parameter, turn)
        is_own = root == place and table.is_in_key(column)
        is_made = is_own and parameter.use == "inserted"
        named = self.variables.get((kept, turn))
        at = self.spans.turn(named if named in self._new else None, turn, is_made=is_made)
        known = None if drawn_before else self.variables.get((kept, at))
        self._filled |= {table.full_name} if parameter.use == "inserted" else set()
        is_value = parameter.use in WRITING and root == place and not is_own
        if (known is not None and (known in self._new or not is_single)) and (
            not is_value or self._written.setdefault(known, statement) is statement
        ):
            return known
        there = (
            drawn_before
            or self._paired(statement, parameter, root, turn)
            or self._own_part(statement, parameter, turn)
            or self._keys.of_reference(parameter, self._there_now(turn))
        )
        if there is not None:
            drawn, share_new = there, 0.0
        elif is_made or (is_own and is_single):
            drawn, share_new = self._added(statement, table, column, turn)
        elif is_single:
            drawn, share_new = self._of_other(statement, place, turn)
        elif parameter.use in WRITING and not turn and self._keys.guessed.get(place) in self._later:
            drawn, share_new = self._added(statement, self._keys.tables[root[0]], column, turn)
        else:
            drawn, share_new = self._there(statement, parameter, column, turn)
        name = self._lines.set(f"{short(root)}_key", drawn)
        self.variables[kept, at] = name
        self._written |= {name: statement} if is_value else {}
        if share_new >= ALWAYS:
            self._new.add(name)
            self.spans.turn(name, turn, is_made=is_made)
        return name

    def _there_now(self, turn: int) -> dict[Place, str]:
        known = ((of, name) for (of, at), name in self.variables.items() if at == turn)
        return {of: f":{name}" for of, name in known if name not in self._new}

    def _named_pairs(self, statement: Statement) -> Iterator[PairedKey]:
        """Yield the keys with a pair of which a statement names both columns."""
        named = {(each.table, each.column) for each in statement.parameters}
        for (table, _), key in self._keys.paired.items():
            both = [name for name, root in key.roots.items() if root in key.pair.columns]
            if named.issuperset((table, each) for each in both):
                yield key

    def _paired(
        self, statement: Statement, parameter: Parameter, root: Place, turn: int
    ) -> str | None:
        """Return the key of one of the pairs that the transaction names: with the other one, if
        that was named before, or of any pair, if the statement names both. None of other keys."""
        table = self._keys.tables[parameter.table]
        if parameter.use in WRITING and (table.full_name, parameter.column) == root:
            return None
        for pair in (each for each in self._pairs if root in each.columns):
            named = next((each for each in self._named_pairs(statement) if each.pair == pair), None)
            other = self.variables.get((pair.other(root), turn))
            number = self.variables.get((pair.place, turn))
            if other is not None and number is not None:
                return pair.key(root, f":{number}")
            if other is None and named is not None:
                return self._of_pair(statement, named, root, turn)
            is_new = named is not None and self._adds(statement, named)
            is_there = named is not None or found_share(statement, table) >= ALWAYS
            if other is not None and other not in self._new and not is_new and is_there:
                part = "0"
                if pair.turns > 1:
                    part = f":{self._lines.set('turn', f'random(0, {pair.turns - 1})')}"
                return pair.beside(root, f":{other}", part)
        return None

    def _of_pair(self, statement: Statement, named: PairedKey, root: Place, turn: int) -> str:
        """Return the key of a column in a pair that a statement names; note the number of it."""
        pair, rows = named.pair, max(1, self._keys.rows(self._keys.tables[named.table]))
        first, free = self.variables.get((pair.place, 0)), pair.all - rows
        is_new = free > 0 and self._adds(statement, named)
        if turn and first is not None:
            drawn = f"mod(:{first} + {turn}, {pair.all if is_new else pair.rows})"
        elif is_new:
            drawn = f"{rows} + mod({_START.format(free)} + :txn, {free})"
        else:
            is_there = statement.rows >= ALWAYS and not (statement.aggregates or statement.added)
            drawn = self.rounds.one_of(min(rows, pair.rows) if is_there else pair.rows)
        number = self.variables[pair.place, turn] = self._lines.set("pair", drawn)
        return pair.key(root, f":{number}")

    def _adds(self, statement: Statement, named: PairedKey) -> bool:
        """Return whether a statement adds a row with a pair that may be in no other one."""
        inserts = first_word(statement.text) == "insert" and named.is_whole
        return inserts and not statement.on_conflict

    def _own_part(self, statement: Statement, parameter: Parameter, turn: int) -> str | None:
        """Return one of the keys that no other row refers to than the one that a statement changes,
        where at most one may: each row has a part of them. None of other keys."""
        root = self._keys.root((parameter.table, parameter.column))
        written = next((each.table for each in statement.parameters if each.use in WRITING), "")
        if turn or not written or not self._keys.is_key(root):
            return None
        for key in (each for each in self._keys.tables[written].keys if len(each) == 1):
            place = (written, key[0])
            to = self._keys.root(place)
            is_single = to != place and to[0] == root[0] and self._keys.is_key(to)
            if is_single and place not in self._keys.guessed:
                but = {key[0], *([parameter.column] if parameter.table == written else [])}
                number, rows = self._changed(statement, written, but) or ("", 0)
                if rows and (parts := self._keys.count(root) // rows):
                    return f"{number} + {rows} * random(0, {parts - 1}) + 1"
        return None

    def _changed(self, statement: Statement, name: str, but: set[str]) -> tuple[str, int] | None:
        """Return the number of the row that a statement changes, from 0, and how many numbers there
        are; None if no key without some columns tells it."""
        table, conflict = self._keys.tables[name], _CONFLICT_KEY.search(statement.text)
        named = {
            each.column: each
            for each in statement.parameters
            if each.table == name and each.use == ("compared" if conflict is None else "inserted")
        }
        told = named.keys() if conflict is None else {*map(folded, re.findall(NAME, conflict[1]))}
        able = (each for each in table.keys if told >= {*each} <= named.keys())
        key = next((each for each in able if but.isdisjoint(each)), ())
        columns = [column for each in key if (column := table.column(each)) is not None]
        drawn = [self.of(statement, named[each.name], each, 0) for each in columns]
        rows = max(1, self._keys.rows(table))
        if not drawn or any(each in self._new for each in drawn):
            return None
        if (paired := self._keys.paired.get((name, key))) is not None and paired.is_whole:
            number = self.variables.get((paired.pair.place, 0))
            return None if number is None else (f":{number}", paired.pair.rows)
        count = max(rows, self._keys.count((name, key[0])))
        return (f":{drawn[0]} - 1", count) if len(key) == 1 else None

    def _earlier(self, statement: Statement, parameter: Parameter, turn: int) -> str | None:
        """Return the key of an earlier row than the one beside it, where recursive queries go from
        one to the other; None of other keys."""
        table = self._keys.tables[parameter.table]
        path = self._keys.path(table)
        if path is None or (beside := path.beside(statement, parameter)) is None:
            return None
        column = next(each for each in table.columns if each.name == path.later)
        other = max(0, turn + beside[1])
        is_known = (self._keys.root((table.full_name, path.later)), other) in self.variables
        later = self.of(statement, beside[0], column, other)
        if later in self._returned:
            return None
        if not is_known:  # No row is before the first one.
            self._lines.add(f"\\set {later} greatest(2, :{later})")
        most = self._lines.set("earlier", path.before(f":{later}"))
        return f"random(least(1, :{most}), :{most})"

    def _finds_nothing(
        self, statement: Statement, parameter: Parameter, table: Table, column: Column
    ) -> bool:
        """Return whether a statement looks for rows by one column alone, or by a whole key, and
        never finds one though there are some: its keys are none of a row."""
        others = [each for each in statement.parameters if each.use not in _BESIDE_ROWS]
        tells = self._keys.tells_rows(table, column)
        is_whole = tells and found_share(statement, table) == 0
        is_alone = parameter.use == "compared" and ({*others} == {parameter} or is_whole)
        is_empty = not self._keys.rows(table) or statement.aggregates
        known = self.variables.get((self._keys.root((table.full_name, column.name)), 0))
        # A key that is drawn for it is none of a row anyway.
        is_told = is_empty or statement.rows > 0 or (known is None and tells)
        return is_alone and not is_told and known not in self._new

    def _reads_again(self, statement: Statement, known: str | None) -> bool:
        """Return whether a statement would only read the same rows in each round of its loop, by a
        variable that was set before: it reads others, unless the transaction has added these."""
        named = [each for each in statement.parameters if each.use != "limit"]
        is_read = len(named) == 1 and first_word(statement.text) == "select"
        return is_read and known in self.before_rounds - (self._new - self._returned)

    def _is_older(self, statement: Statement, parameter: Parameter) -> bool:
        """Return whether a statement finds rows by a column of a table to which the transaction has
        added none: they are others than those of a row that it has added elsewhere."""
        place = (parameter.table, parameter.column)
        is_other = self._keys.root(place) != place and parameter.table not in self._filled
        by_trigger = any(self._keys.tables[each].triggers for each in self._filled)
        is_found = statement.rows >= FOUND and not statement.aggregates
        return parameter.use == "compared" and is_other and is_found and not by_trigger

    def _added(
        self, statement: Statement, table: Table, column: Column, turn: int
    ) -> tuple[str, float]:
        """Return the expression of a key of a row to be added, and the share of new ones."""
        place = (table.full_name, column.name)
        if (first := self._of_first_row(statement, table, column, turn)) is not None:
            return f":{first}", 0.0
        share = new_share(self._same[statement.without_rows], place, turn)
        if statement.on_conflict:
            is_same = self._keys.has_one_beside_pairs(place)
            share = 0.0 if is_same else self._keys.new_in_combinations(table, column, share)
        return mixed(
            self._in_turn(statement, place, turn), self._next(statement, table, column, turn), share
        )

    def _of_first_row(
        self, statement: Statement, table: Table, column: Column, turn: int
    ) -> str | None:
        """Return the key that a column has in the first row of an INSERT, if nothing tells how many
        it has, and another column of its key that refers to rows has another one in each row."""
        first = self.variables.get(((table.full_name, column.name), 0))
        if not turn or first is None or column.distinct is not None:
            return None
        written = {each.column for each in statement.parameters if each.use == "inserted"}
        others = [
            other
            for key in table.keys
            for each in key
            if column.name in key and each in written and (other := table.column(each)) is not None
        ]
        differs = any(
            self._keys.root((table.full_name, each.name))[0] != table.full_name
            and not self._repeated(statement, table, each)
            for each in others
        )
        return first if differs else None

    def _repeated(self, statement: Statement, table: Table, column: Column) -> int:
        """Return how many rows of an INSERT repeat its first one: all of those that a statement
        finds by one value, and those that are not counted, as they are there, of a key all of whose
        columns refer to others. Which of their combinations are there is not known."""
        place = (table.full_name, column.name)
        count = values_of(statement, place)
        if not self._keys.is_key(place) and self._together.get(place, 0.0) >= FOUND * count:
            return count
        keys = [key for key in table.keys if column.name in key and len(key) > 1]
        own = (self._keys.root((place[0], each)) for key in keys for each in key)
        if statement.on_conflict != "nothing" or not keys or any(r[0] == place[0] for r in own):
            return 0
        return round(count - max(1.0, statement.rows))

    def _in_turn(self, statement: Statement, place: Place, turn: int) -> str:
        """Return the expression of a key that is there; of a statement that updates rows in place
        of inserting them, other ones than of its rows before: no row may be updated twice."""
        first = self.variables.get((self._keys.root(place), 0))
        if turn == 0 or first is None or statement.on_conflict != "update":
            return self._keys.drawn(place, most=self._count(place, turn))
        return f"mod(:{first} + {turn * STEP - 1}, {self._keys.count(place)}) + 1"

    def _there(
        self, statement: Statement, parameter: Parameter, column: Column, turn: int
    ) -> tuple[str, float]:
        """Return the expression of the key of a row that is looked for, or referred to, and the
        share of those that are not there."""
        place = (parameter.table, column.name)
        root, table = self._keys.root(place), self._keys.tables[parameter.table]
        least = self._least_rows(statement, root)
        count = min(self._count(place, turn), least)
        writes, frequent = parameter.use in WRITING, self._keys.frequent(table, column)
        names_row = root != place and self._keys.is_key(root) and not turn and not frequent
        if (skew := self._skews.get(root[0])) and self._finds_row(root):
            there = f"{self.rounds.one_of(self._keys.count(root), skew)} + 1"
        elif parameter.use == "set" and wants_unset(statement, column):
            there = _SET_FLAG
        elif self.rounds.most > 1 and (names_row or not writes):
            there = f"{self.rounds.one_of(count)} + 1"
        elif writes and table.is_in_key(column):
            there = self._in_turn(statement, place, turn)
        elif writes and least >= self._keys.count(root):
            there = self._keys.drawn(place, frequent)
        elif (first := self.variables.get((root, 0))) and turn and count <= _FEW:
            there = f"mod(:{first} + {turn - 1}, {max(count, turn + 1)}) + 1"
        else:
            there = f"random(1, {least if writes else count})"
        if writes:
            return self._grown(there, statement, parameter, turn), 0.0
        share = found_share(statement, table) if self._keys.tells_rows(table, column) else 1.0
        if (row := self._of_row(statement, parameter, column, turn)) is not None:
            there = row
        elif (beside := self._beside(table, column, turn)) is not None:
            return beside, 0.0
        if share >= ALWAYS:
            return there, 0.0
        absent = f"random({self._keys.count(place) + 1}, {most_key(column)})"
        return mixed(there, absent, 1 - share)

    def _least_rows(self, statement: Statement, root: Place) -> int:
        """Return the rows of the smallest table in which a statement looks for one by a key."""
        compared = (each for each in statement.parameters if each.table and each.use == "compared")
        places = ((each.table, each.column) for each in compared)
        rows = (
            self._keys.rows(self._keys.tables[each[0]])
            for each in places
            if self._keys.is_key(each) and self._keys.root(each) == root
        )
        return max(1, min(rows, default=self._keys.count(root)))

    def _grown(self, there: str, statement: Statement, parameter: Parameter, turn: int) -> str:
        """Return the expression of a value to be written, a new one as often as the rows have
        different ones: their number grows with the rows. Where it is not known, numbers are taken
        for quantities, and texts with a default for words, which come again."""
        place = (parameter.table, parameter.column)
        table = self._keys.tables[place[0]]
        column, count = table.column(place[1]), self._keys.count(place)
        share = count / max(1, self._keys.rows(table))
        if column is None or column.labels or share < GROWING_MIN:
            return there
        comes_again = column.default == "value" or not (is_text(column) or column.base == "uuid")
        if column.distinct is None and comes_again:
            return there
        if self._keys.root(place) != place:
            return there
        if column.correlation is not None:
            return mixed(there, self._following(statement, place, column, turn), share)[0]
        if (most := most_key(column)) <= count:
            return there
        return mixed(there, f"random({count + 1}, {most})", share)[0]

    def _of_row(
        self, statement: Statement, parameter: Parameter, column: Column, turn: int
    ) -> str | None:
        """Return the key of a column in a row of which the statement names the whole key of several
        columns: few of their combinations may be there. None if it does not, or names a part of
        it that was named before."""
        table = self._keys.tables[parameter.table]
        named = {each.column for each in statement.parameters if each.table == parameter.table}
        wholes = (each for each in table.keys if len(each) > 1 and named.issuperset(each))
        key = next((each for each in wholes if column.name in each), None)
        if key is None or turn or not self._keys.rows(table):
            return None
        if (row := self._rows.get(table.full_name)) is None:
            if (drawn := self._drawn_row(table, key)) is None:
                return None
            row = self._rows[table.full_name] = self._lines.set(f"{table.name}_row", drawn)
        return _ROW.sub(f":{row}", self._keys.of_row(table, column))

    def _finds_row(self, root: Place) -> bool:
        """Return whether a key finds a row, alone or with the others of its key, which the
        transaction has named."""
        key = next((each for each in self._keys.tables[root[0]].keys if root[1] in each), ())
        others = (self._keys.root((root[0], each)) for each in key if each != root[1])
        return bool(key) and all((each, 0) in self.variables for each in others)

    def _drawn_row(self, table: Table, key: tuple[str, ...]) -> str | None:
        """Return the expression of the number of a row, from 0: of any, or of one with the first
        column of the key, where that alone was named before."""
        roots = [self._keys.root((table.full_name, each)) for each in key]
        known = [self.variables.get((each, 0)) for each in roots]
        if len({*roots}) < len(key) or any(known[1:]):
            return None
        rows, skew = max(1, self._keys.rows(table)), self._skews.get(table.full_name)
        if (first := known[0]) is None:
            return self.rounds.one_of(rows, skew)
        used = self._keys.used((table.full_name, key[0]))
        if first in self._new or rows <= used:
            return None
        of_first, more = divmod(rows, used)
        start = f"(:{first} - 1) * {of_first}"
        if more:
            start = f"((:{first} - 1) * {rows} + {used - 1}) / {used}"
        return f"{start} + {self.rounds.one_of(of_first, skew)}"

    def _beside(self, table: Table, column: Column, turn: int) -> str | None:
        """Return the key that a column has in the row of another that the statement names."""
        if (beside := self._keys.beside(table, column)) is None:
            return None
        other = self.variables.get(((table.full_name, beside), turn))
        if other is None or other in self._new:
            return None
        return self._keys.of_number(table, column, f"(:{other} - 1)")

    def _next(self, statement: Statement, table: Table, column: Column, turn: int) -> str:
        """Return the expression of a key that no row has; of parts of a new row, their number."""
        place = (table.full_name, column.name)
        key = next(each for each in table.keys if column.name in each)
        others = (self._keys.root((table.full_name, each)) for each in key if each != column.name)
        of_new_row = any(self.variables.get((each, 0)) in self._new for each in others)
        if of_new_row and self.rounds.most > 1 and column.name == key[-1]:
            return ":round"
        return self._following(statement, place, column, turn)

    def _following(self, statement: Statement, place: Place, column: Column, turn: int) -> str:
        """Return the expression of a key behind those that are there."""
        return following(self._keys, self.rounds, statement, place, column, turn)

    def _of_other(self, statement: Statement, place: Place, turn: int) -> tuple[str, float]:
        """Return the expression of a key for a table with at most one row for each of another's,
        and the share of those that are in neither: all, where no constraint wants it there, and
        otherwise one that this table has not yet, as far as there are some."""
        root = self._keys.root(place)
        column = self._keys.tables[root[0]].column(root[1])
        if self._keys.guessed.get(place) == root and column is not None:
            return self._following(statement, root, column, turn), 1.0
        least = self._keys.rows(self._keys.tables[place[0]]) + 1
        free = self._keys.count(place) + 1 - least
        if free < _FREE_MIN:
            return self._keys.drawn(place), 0.0
        return f"{least} + mod({_START.format(free)} + :txn, {free})", 0.0

    def _count(self, place: Place, turn: int) -> int:
        """Return how many keys of a column a statement may name: those by which the transaction
        finds rows, where others name the same."""
        count, root = self._keys.used(place), self._keys.root(place)
        is_other = turn > 0 or (root, 0) in self.variables
        return count if is_other else min(count, self._most.get(root, count))


def short(place: Place) -> str:
    """Return table and column as the name of a variable begins."""
    return f"{place[0].rpartition('.')[2]}_{place[1]}"
