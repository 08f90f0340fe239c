"""The scripts of a capture: one for each kind of transaction."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import Struct

from pgdyno.clone._arguments import Arguments, compares_rows
from pgdyno.clone._lines import Lines
from pgdyno.clone._rounds import Rounds
from pgdyno.clone._several_rows import several_rows
from pgdyno.clone._shares import ALWAYS, SHARES, on_average
from pgdyno.clone.capture_file import SHORTENED, Capture, Statement, Step, Transaction
from pgdyno.clone.keys import Keys, Place
from pgdyno.clone.outputs import NUMBERS, returned_arrays, returned_keys
from pgdyno.spec.change import first_word

_PARAMETER = re.compile(r"\$(\d+)")
_RETURNING = re.compile(r"(?is).*\breturning\b(.+)$")
_CASTS = {"text": "::text", "character varying": "::text", "character": "::bpchar"}
"""Type of a parameter → what makes a text of it: a short key is a number, and is written as one
where values are within the text of a statement."""
_LISTED = re.compile(r"[^\s,]+")
"""Each of the values of a list."""
_SAME = 0.05
"""Part by which the executions of statements of one loop may differ."""
_OFTEN = 1.5
"""Executions in a transaction from which on a statement is repeated."""


class Part(Struct, frozen=True):
    """A transaction of a script."""

    transaction: Transaction
    chances: tuple[float, float] = (0.0, 1.0)
    """Its executions in the script: those with most statements come first."""


def script_of(capture: Capture, parts: Sequence[Part], keys: Keys) -> str:
    """Return the script of a transaction, and of the one that takes the rows that it puts into a
    queue."""
    return _Script(capture, parts, keys).text()


class _Size(NamedTuple):
    """A statement with a number of rows."""

    parameters: int
    share: float
    """Of the transactions that have it."""
    place: int
    """Among the statements."""


class _Script:
    """A script that is being written."""

    def __init__(self, capture: Capture, parts: Sequence[Part], keys: Keys) -> None:
        self._parts = parts
        self._keys = keys
        self._is_simple = capture.source.is_simple
        steps = [each for part in parts for each in part.transaction.steps]
        self._statements = [capture.statements[each.statement] for each in steps]
        self._lines = Lines()
        always = parts[-1].chances[1]
        behind = [*zip(self._statements, steps, strict=True)][len(parts[0].transaction.steps) :]
        later = [statement for statement, step in behind if _chance(step) >= always]
        self._arguments = Arguments(self._statements, keys, self._lines, later)
        self._chance = ""
        """Variable by which parts of the transactions are chosen: what a transaction has seldom
        comes together."""
        self._chances = (0.0, 1.0)
        """Executions of a transaction that its script has."""
        self._taken: dict[str, float] = {}
        """Share of the transactions that have a statement, by what others are in its place."""
        self._shares: defaultdict[str, list[_Size]] = defaultdict(list)
        """Statements that are the same but for their number of rows."""
        for place, (statement, step) in enumerate(zip(self._statements, steps, strict=True)):
            size = _Size(statement.size, _share(step), place)
            self._shares[statement.without_rows].append(size)
        self._of_any_size: set[str] = set()
        """Those that are written already, with any number of rows."""

    def text(self) -> str:
        """Return the script."""
        first = 0
        for part in self._parts:
            # What belongs together has as many rows in both.
            self._chance = self._chance if part.chances == self._chances else ""
            self._chances = part.chances
            self._write_transaction(part.transaction, first)
            first += len(part.transaction.steps)
        return self._lines.text()

    def _write_transaction(self, transaction: Transaction, first: int) -> None:
        """Write a transaction; the place of its first statement is among those of the script."""
        if transaction.block:
            self._lines.add("begin;")
        for times, chance, group in _groups(transaction.steps, first):
            with self._by_chance(0.0, chance):
                self._write(group, times)
        if transaction.block:
            self._lines.add("commit;")

    def _write(self, group: Sequence[tuple[int, Step]], times: float) -> None:
        if times == 1:
            for place, step in group:
                self._write_step(place, step, is_once=True)
            return
        rounds = Rounds(math.ceil(times), self._rounds(times))
        self._lines.add(f"\\for round {rounds.text}")
        with self._arguments.rounds(rounds):
            for place, step in group:
                self._write_step(place, step, is_once=False)
        self._lines.add("\\endfor")

    def _rounds(self, times: float) -> str:
        """Return a number of rounds that is ``times`` on average."""
        least = math.floor(times)
        if not round((times - least) * SHARES):
            return str(least)
        return f":{self._lines.set('rounds', on_average(times))}"

    def _write_step(self, place: int, step: Step, *, is_once: bool) -> None:
        if is_once and self._write_rows(place):
            return
        chance = self._chance_of(place, step) if is_once else 1.0
        least = self._others(self._statements[place], chance) if chance < 1 else 0.0
        self._arguments.executed_in(least, least + chance)
        text = self._with_variables(self._statements[place])
        captured = self._captured(place) if is_once else None
        found = self._found(place) if captured is None and chance == 1 else {}
        arrays = self._found_arrays(place) if is_once and chance == 1 and not found else {}
        if captured and chance < 1:
            found = {f"s{place}_{captured[1]}": self._arguments.there(captured[0])}
        for name, value in found.items():
            self._lines.add(f"\\set {name} {value}")
        with self._by_chance(least, least + chance):
            is_one = captured or arrays
            ends = f" \\gset s{place}_" if is_one else f" \\aset s{place}_" if found else ";"
            self._lines.add(text + ends)
        if captured:
            self._arguments.returned(captured[0], f"s{place}_{captured[1]}", is_added=True)
        self._arguments.returned_rows({key: f"s{place}_{name}" for key, name in arrays.items()})

    def _write_rows(self, place: int) -> bool:
        """Write a statement that is not prepared as one with any number of rows, in place of all
        that differ in this alone; return whether it was."""
        name = self._statements[place].without_rows
        if name in self._of_any_size:
            return True
        sizes = sorted(self._shares[name])
        if several := sum(each.share for each in sizes) > 1 + _SAME:
            sizes = [each for each in sizes if each.place == place]
        statements = [self._statements[each.place] for each in sizes]
        rows = [*filter(None, (several_rows(each.text) for each in statements))]
        if len(rows) < len(sizes) or not self._can_have_any_rows(sizes[-1].place):
            return False
        self._of_any_size |= set() if several else {name}
        leasts = [self._others(self._statements[each.place], each.share) for each in sizes]
        up_to = [least + each.share for least, each in zip(leasts, sizes, strict=True)]
        self._arguments.executed_in(leasts[0], up_to[-1])
        values, most = self._arguments.of(statements[-1]), rows[-1]
        counts = dict(zip(up_to, (each.count for each in rows), strict=True))
        with self._by_chance(leasts[0], up_to[-1] if up_to[-1] < ALWAYS else leasts[0] + 1):
            count = self._lines.set("count", self._by_shares(counts))
            text = _filled(most.text, values)
            self._lines.add(f"{text} \\rows :{count} {most.columns(values)}")
        return True

    def _can_have_any_rows(self, place: int) -> bool:
        """Return whether a statement with rows is not prepared, and all of these are expressions
        that no later statement needs."""
        statement = self._statements[place]
        is_able = statement.is_parsed and len(self._parts) == 1 and self._captured(place) is None
        return is_able and not self._arguments.has_text_of_server(statement)

    def _by_shares(self, counts: Mapping[float, int]) -> str:
        """Return the expression of a number, by the shares of the transactions up to which it is
        each one."""
        *others, (_, last) = counts.items()
        if not others:
            return str(last)
        chance = self._chosen()
        cases = (f"when :{chance} <= {round(to * SHARES)} then {count}" for to, count in others)
        return f"case {' '.join(cases)} else {last} end"

    def _chance_of(self, place: int, step: Step) -> float:
        """Return the share of the transactions that have a step: 1 for nearly all, unless they have
        another number of rows in the rest."""
        shares = [each.share for each in self._shares[self._statements[place].without_rows]]
        return _share(step) if len(shares) > 1 and sum(shares) <= 1 + _SAME else _chance(step)

    def _others(self, statement: Statement, chance: float) -> float:
        """Return the share of the transactions that have another statement in place of one: the
        same with fewer rows, or one that does the same to the table in all others. A transaction
        has as many rows for all statements that differ in them."""
        table = next((each.table for each in statement.parameters if each.table), "")
        kind = f"{first_word(statement.text)} {table}"
        least, like = 0.0, self._taken.get(kind, 0.0)
        if len(same := self._shares[statement.without_rows]) > 1:
            fewer = sum(each.share for each in same if each.parameters < statement.size)
            least = fewer if fewer + chance <= 1 + _SAME else 0.0
        elif abs(1 - like - chance) <= _SAME:
            least = like
        self._taken[kind] = max(like, least + chance)
        return least

    def _found(self, place: int) -> dict[str, str]:
        """Have later statements name the rows whose keys a statement returns; return the variables
        of these, with the values that they have where it returns no row."""
        compared, written = self._named_after(place)
        found = {}
        for root, output in returned_keys(self._statements[place], self._keys).items():
            is_named = root in compared - written and self._can_write(root)
            if is_named and not self._arguments.has(root):
                name = f"s{place}_{output}"
                found[name] = self._arguments.there(root)
                self._arguments.returned(root, name, is_added=False)
        return found

    def _found_arrays(self, place: int) -> dict[Place, str]:
        """Return the columns of all rows that a statement returns, with their names, if a later one
        changes rows that are as they were found."""
        arrays = returned_arrays(self._statements[place], self._keys)
        later = self._statements[place + 1 :] if arrays else ()
        return arrays if any(compares_rows(each, arrays) for each in later) else {}

    def _named_after(self, place: int) -> tuple[set[Place], set[Place]]:
        """Return the keys by which statements after another one find rows, and those that they
        write."""
        compared, written = set(), set()
        for statement in self._statements[place + 1 :]:
            for each in statement.parameters:
                if not each.table:
                    continue
                own = each.table, each.column
                root = self._keys.root(own)
                if each.use == "compared":
                    compared.add(root)
                elif root == own:
                    written.add(root)
        return compared, written

    @contextmanager
    def _by_chance(self, least: float, most: float) -> Iterator[None]:
        """Have lines that are written meanwhile executed in a part of the transactions: in those
        between two shares."""
        if most - least >= 1:
            yield
            return
        chance = self._chosen()
        above = f":{chance} > {round(least * SHARES)} and " if least else ""
        highest = max(1, round(most * SHARES))
        self._lines.add(f"\\if {above}:{chance} <= {highest}")
        yield
        self._lines.add("\\endif")

    def _chosen(self) -> str:
        """Return the variable by which parts of the transactions are chosen."""
        low, high = (round(each * SHARES) for each in self._chances)
        self._chance = self._chance or self._lines.set("chance", f"random({low + 1}, {high})")
        return self._chance

    def _captured(self, place: int) -> tuple[Place, str] | None:
        """Return the key of the row that a statement inserts, and the name under which it returns
        it, if later statements name it."""
        statement = self._statements[place]
        returning = _RETURNING.match(statement.text)
        own = self._keys.made_by(statement)
        if returning is None or own is None:
            return None
        name = _returned(returning[1], own[1])
        if name is None:
            return None
        later = {
            self._keys.root((each.table, each.column))
            for statement in self._statements[place + 1 :]
            for each in statement.parameters
            if each.table
        }
        return (own, name) if own in later and self._can_write(own) else None

    def _can_write(self, root: Place) -> bool:
        """Return whether a script can write a key that the server has returned: within the text of
        a statement it has no quotes."""
        column = self._keys.tables[root[0]].column(root[1])
        return not self._is_simple or (column is not None and column.base in NUMBERS)

    def _with_variables(self, statement: Statement) -> str:
        """Set the variables of a statement; return its text with them."""
        values = self._arguments.of(statement)
        if self._is_simple:
            pairs = zip(values, statement.parameters, strict=True)
            values = [_LISTED.sub(rf"\g<0>{_CASTS.get(of.type, '')}", value) for value, of in pairs]
        return _filled(statement.text.replace(f" {SHORTENED}", ""), values)


def _filled(text: str, values: Sequence[str]) -> str:
    """Return a text with values in place of its parameters."""

    def value(found: re.Match[str]) -> str:
        number = int(found[1]) - 1
        return values[number] if number < len(values) else found[0]

    return _PARAMETER.sub(value, text)


def _returned(listed: str, key: str) -> str | None:
    """Return the name under which RETURNING has a column; None if it has not, or another than a
    variable can have."""
    found = re.search(rf"(?i)(?:^|,)\s*{re.escape(key)}(?:\s+as\s+(\w+))?\s*(?:,|$)", listed)
    if found is None and listed.strip() != "*":
        return None
    name = key if found is None else found[1] or key
    return name if re.fullmatch(r"\w+", name, re.ASCII) else None


def _share(step: Step) -> float:
    return step.times if step.share is None else step.share


def _chance(step: Step) -> float:
    """Return the share of the transactions that have a step, 1 for nearly all."""
    return _share(step) if _share(step) < ALWAYS else 1.0


def _repeated(step: Step) -> tuple[float, float]:
    """Return how often a step is repeated, and the chance of all of its executions."""
    chance = _chance(step)
    times = step.times / max(chance, 1 / SHARES)
    return (times, round(chance, 2)) if times >= _OFTEN else (1.0, 1.0)


def _groups(
    steps: Sequence[Step], start: int
) -> Iterator[tuple[float, float, list[tuple[int, Step]]]]:
    """Yield steps that follow each other and are repeated as often, with the mean of their
    executions and the chance of all; each step with its place, from ``start`` on."""
    group: list[tuple[int, Step]] = []
    first = (0.0, 0.0)
    for place, step in enumerate(steps, start):
        times, chance = _repeated(step)
        if group and (chance != first[1] or abs(times - first[0]) > _SAME * first[0]):
            yield *first, group
            group = []
        if not group:
            first = times, chance
        group.append((place, step))
    if group:
        yield *first, group
