"""A capture from start to end: two looks at the counts of statements, samples of sessions between
them, the catalogue, and the columns of parameters from plans on an empty schema."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pgdyno._engine import build_info
from pgdyno.capture._accesses import Accesses
from pgdyno.capture._behaviour import behaviour_of, own_transactions
from pgdyno.capture._calls import Calls
from pgdyno.capture._catalogue import Catalogue
from pgdyno.capture._code import LANGUAGE, names_in
from pgdyno.capture._distinct import with_distinct
from pgdyno.capture._functions import Functions
from pgdyno.capture._parameters import Unplannable, parameters_of, with_types
from pgdyno.capture._queries import rows_of
from pgdyno.capture._sampling import Samples
from pgdyno.capture._scanning import VALUE_CHARACTERS_MIN, values_in
from pgdyno.capture._schema import EmptySchema
from pgdyno.capture._settings import SourceSettings
from pgdyno.capture._skew import Updates, exponent_of, next_xid
from pgdyno.capture._texts import begins, is_kept, is_recursive, without_values
from pgdyno.capture._transactions import Kind, Seen, kinds_of
from pgdyno.capture._units import beginning
from pgdyno.check import Where, answering, reach, session
from pgdyno.check.observing import Observed, observing
from pgdyno.clone.capture_file import (
    FORMAT,
    VERSION,
    Capture,
    Source,
    Statement,
    Step,
    Transaction,
    write_capture,
)
from pgdyno.clone.keys import Keys
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import SetupError
from pgdyno.numbers import counted, listed
from pgdyno.probe.statements import (
    Rise,
    StatementsUnavailable,
    busiest,
    evictions,
    read_counts,
    read_texts,
    risen,
    source_of,
)
from pgdyno.server.extensions import STATEMENTS
from pgdyno.server.sql_files import OWN
from pgdyno.spec.change import first_word

if TYPE_CHECKING:
    import psycopg

_EVEN = "the rows that statements read more often than others are not known: all alike"
STATEMENTS_MAX = 2000
"""Statements that are captured, those that take the most time."""


class CaptureRequest(Struct, frozen=True):
    """A server to capture, and the time for it."""

    where: Where
    seconds: float
    path: Path


class _Load(Struct):
    """The load of the period."""

    seconds: float
    rises: dict[str, Rise]
    texts: dict[str, str]
    samples: Samples
    transactions: float
    updates: dict[int, Updates]
    """By the ids of tables."""
    skews: dict[int, float | None]
    """Exponents of updates, likewise."""
    accesses: Accesses
    gaps: list[str]


class _Around(Struct):
    """The server of the load."""

    major: int
    settings: SourceSettings
    observed: Observed


def capture(request: CaptureRequest, watcher: Watcher) -> Capture:
    """Capture the load of a server, and write it to the file. The server is only read.

    Raises SetupError for a server that does not answer, or does not count statements.
    """
    found = captured(request.where, request.seconds, watcher)
    try:
        write_capture(found, request.path)
    except OSError as problem:
        raise SetupError(
            f"{request.path} cannot be written: {problem.strerror}", code="capture-unwritable"
        ) from None
    return found


def captured(
    where: Where,
    seconds: float,
    watcher: Watcher,
    period: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Capture:
    """Return the capture of a server's load, which has no value that its statistics have.
    ``period`` is entered for the time that is watched. Raises SetupError as :func:`capture`
    does."""
    watcher.phase("connecting")
    reached = reach(where, watcher.note)
    with answering(reached.conninfo), session(reached.conninfo) as connection:
        watcher.phase("reading the catalogue")
        catalogue = Catalogue(connection)
        functions = Functions(connection, catalogue.ids, catalogue.known)
        watcher.phase(f"watching the load for {seconds:g} s", seconds)
        with observing(reached, watcher) as seen, period():
            load = _watched(connection, catalogue, seconds)
        settings = SourceSettings(connection)
        watcher.phase("finding the columns of parameters")
        major = connection.info.server_version // 10_000
        found = _captured(catalogue, functions, load, _Around(major, settings, seen))
        watcher.phase("looking for values")
        values = {"tables": catalogue.ids, "characters": VALUE_CHARACTERS_MIN}
        made = {*catalogue.known.labels.values()}
        known = [
            row["value"]
            for row in rows_of(connection, "values", values)
            if row["value"] not in made
        ]
    _check(found, known)
    return found


def _watched(connection: psycopg.Connection[Any], catalogue: Catalogue, seconds: float) -> _Load:
    tables = catalogue.ids
    try:
        source = source_of(connection)
        before, evicted = read_counts(connection, source), evictions(connection, source)
        updated, first_xid = _updates(connection, tables), next_xid(connection)
        accesses = Accesses(connection, source.schema, tables)
        began_s, began = time.monotonic(), _transactions(connection)
        samples = Samples(connection)
        samples.watch(seconds)
        after = read_counts(connection, source)
        accesses.end()
        elapsed_s = time.monotonic() - began_s
    except StatementsUnavailable as problem:
        raise SetupError(
            f"the load cannot be captured: {problem.why}",
            code="capture-statements",
            hint=f"it is known by the statements that {STATEMENTS} counts: {problem.allow}",
        ) from None
    gaps = []
    if evictions(connection, source) > evicted:
        gaps.append(f"{STATEMENTS} evicted statements meanwhile: rare ones are missing")
    rises = risen(before, after)
    kept = busiest(rises)[:STATEMENTS_MAX]
    updates = {
        each: counts.since(updated[each])
        for each, counts in _updates(connection, tables).items()
        if each in updated
    }
    return _Load(
        elapsed_s,
        {each: rises[each] for each in kept},
        read_texts(connection, source, kept),
        samples,
        _transactions(connection) - began,
        updates,
        {
            number: exponent_of(connection, table, updates[number], first_xid)
            for number, table in zip(catalogue.ids, catalogue.tables, strict=True)
            if number in updates
        },
        accesses,
        gaps,
    )


def _updates(connection: psycopg.Connection[Any], tables: list[int]) -> dict[int, Updates]:
    rows = rows_of(connection, "updates", {"tables": tables})
    return {int(row.pop("id")): Updates(**row) for row in rows}


def _transactions(connection: psycopg.Connection[Any]) -> int:
    (row,) = rows_of(connection, "totals")
    return int(row["transactions"])


def _captured(catalogue: Catalogue, functions: Functions, load: _Load, around: _Around) -> Capture:
    gaps = [*catalogue.gaps, *around.settings.gaps, *load.gaps]
    texts = {key: text for key, text in load.texts.items() if OWN not in text}
    left_out = {first_word(text).upper() for text in texts.values() if not is_kept(text)}
    left_out -= {"BEGIN", "COMMIT", "END", "START", "ROLLBACK", "SAVEPOINT", "RELEASE", ""}
    if left_out:
        gaps.append(f"utility statements are left out: {listed(sorted(left_out))}")
    updated = catalogue.with_updates(load.updates, load.skews, load.seconds)
    by_id = load.accesses.with_scans(dict(zip(catalogue.ids, updated, strict=True)), load.seconds)
    with EmptySchema(*functions.of_load(texts.values(), by_id, gaps)) as schema:
        statements = _statements(schema, texts, load, gaps)
        tables, more = with_distinct(schema.tables, statements.values()), schema.gaps
        differing = around.settings.beside(SourceSettings(schema.connection))
    if not statements:
        raise SetupError(
            f"no statement that a load could have was executed in {load.seconds:.0f} s",
            code="capture-idle",
            hint="capture the server while it works, or longer (-T)",
        )
    calls = {key: load.rises[key]["calls"] or 0.0 for key in statements}
    begun = sum(load.rises[key]["calls"] or 0.0 for key, text in texts.items() if begins(text))
    seen = Seen(load.seconds, load.samples.sequences(), load.samples.runs())
    kinds = kinds_of(calls, seen, begun)
    if any(each.guessed for each in kinds):
        gaps.append(
            "statements that are executed equally often are taken for one transaction: none was"
            " seen long enough"
        )
    if any(len(each.statements) > 1 and not each.block for each in kinds):
        gaps.append(
            "statements that commit by themselves are taken for one unit of work where the same"
            " sessions execute them equally often"
        )
    seconds, (sessions, busy) = load.seconds, load.samples.sessions(statements)
    return Capture(
        format=FORMAT,
        version=VERSION,
        made_by=f"pgdyno {build_info()['version']}",
        source=Source(
            major=around.major,
            seconds=round(seconds, 1),
            transactions_per_s=round(
                (load.transactions - own_transactions(around.observed, load.samples)) / seconds, 3
            ),
            sessions=sessions,
            busy_sessions=round(busy, 2),
            **behaviour_of(around.observed, load.samples),
        ),
        tables=tables,
        statements=tuple(statements.values()),
        transactions=tuple(_made_transactions(kinds, statements, calls, load, Keys(tables))),
        gaps=(*gaps, *more, _EVEN),
        functions=schema.functions,
        views=schema.views,
        settings=differing,
    )


def _statements(
    schema: EmptySchema, texts: Mapping[str, str], load: _Load, gaps: list[str]
) -> dict[str, Statement]:
    """Return the statements that can be executed on the schema."""
    found: dict[str, Statement] = {}
    calls_of = Calls(schema.connection, schema.by_name)
    refused = []
    kept = {key: text for key, text in texts.items() if is_kept(text)}
    if any(map(is_recursive, kept.values())):
        gaps.append("recursive queries are left out: rows here may refer to each other in a circle")
    for key, text in kept.items():
        if is_recursive(text):
            continue
        plain = with_types(schema.connection, without_values(text))
        try:
            parameters = parameters_of(schema.connection, plain, schema.by_name)
        except Unplannable as why:
            refused.append(str(why))
            continue
        rise = load.rises[key]
        calls = rise["calls"] or 1.0
        statement = Statement(
            text=plain,
            parameters=calls_of.resolved(plain, parameters),
            calls_per_s=round(calls / load.seconds, 4),
            rows=round((rise["rows"] or 0.0) / calls, 4),
            ms=round((rise["exec_ms"] or 0.0) / calls, 6),
            wal_bytes=round((rise["wal_bytes"] or 0.0) / calls, 2),
        )
        found[key] = load.accesses.with_pages(statement, key, rise)
    if refused:
        number = counted(len(refused), "statement is", "statements are")
        gaps.append(f"{number} left out, as the schema here does not have all of it: {refused[0]}")
    unknown = sum(p.use == "other" for each in found.values() for p in each.parameters)
    if unknown:
        number = counted(unknown, "parameter belongs", "parameters belong")
        gaps.append(f"{number} to no column that is known: the values are random")
    return found


def _made_transactions(
    kinds: Sequence[Kind],
    statements: Mapping[str, Statement],
    calls: Mapping[str, float],
    load: _Load,
    keys: Keys,
) -> Iterator[Transaction]:
    numbers = {key: number for number, key in enumerate(statements)}
    for kind in kinds:
        start = 0
        if kind.guessed or not kind.block:
            start = beginning([statements[each] for each in kind.statements], keys)
        steps = tuple(
            Step(numbers[each], round(calls[each] / max(1.0, kind.transactions), 3))
            for each in (*kind.statements[start:], *kind.statements[:start])
        )
        yield Transaction(round(kind.transactions / load.seconds, 4), steps, kind.block)


def _check(found: Capture, values: list[str]) -> None:
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
