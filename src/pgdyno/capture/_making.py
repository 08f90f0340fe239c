"""The Capture of a server and its load: statements that an empty schema accepts, with the columns
of their parameters, and the transactions that they form."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pgdyno._engine import build_info
from pgdyno.capture._applications import applications_of
from pgdyno.capture._behaviour import behaviour_of, own_transactions
from pgdyno.capture._belonging import with_belonging
from pgdyno.capture._calls import Calls
from pgdyno.capture._course import course_of
from pgdyno.capture._distinct import with_distinct
from pgdyno.capture._nulls import with_nulls
from pgdyno.capture._order import possible_order
from pgdyno.capture._parameters import Unplannable, planned
from pgdyno.capture._period import Load
from pgdyno.capture._recursion import Recursion
from pgdyno.capture._schema import EmptySchema
from pgdyno.capture._server import SourceServer
from pgdyno.capture._settings import SourceSettings
from pgdyno.capture._skew import Updates
from pgdyno.capture._texts import begins, is_kept, without_values
from pgdyno.capture._transactions import Kind, Seen, evened
from pgdyno.capture._units import from_beginning, together_but_for_rows
from pgdyno.capture._upserts import with_added
from pgdyno.capture._whole import all_kinds
from pgdyno.capture._widths import with_widths
from pgdyno.clone.capture_file import (
    FORMAT,
    VERSION,
    Application,
    Capture,
    Source,
    Statement,
    Step,
    Table,
    Transaction,
)
from pgdyno.clone.keys import Keys
from pgdyno.errors import SetupError
from pgdyno.numbers import counted, listed, percent
from pgdyno.server.sql_files import OWN
from pgdyno.spec.change import first_word

_TELLS_PARSED_SINCE = 18
"""Version from which on sessions that execute a prepared statement have its id all the time."""
_REPORTED_S = 1.0
"""Sessions report the numbers of their transactions at most as often (PGSTAT_MIN_INTERVAL)."""
_SHARE_TOLD = 0.1
_DIGITS = 5
"""Of the executions of a statement: those with several numbers of rows are summed up."""
_EVEN = "the rows that statements read more often than others are not known: all alike"
_SETTING = re.compile(r"(?i)\s*set\s+(?!local\b|transaction\b|constraints\b)")
_OF_BLOCKS = frozenset(("BEGIN", "COMMIT", "END", "START", "ROLLBACK", "SAVEPOINT", "RELEASE", ""))


def capture_of(server: SourceServer, load: Load) -> Capture:
    """Return the capture of a server with its load. Raises SetupError for a load without
    statements."""
    gaps = [*server.catalogue.gaps, *server.settings.gaps, *load.gaps, *load.log.gaps]
    texts = {key: text for key, text in load.texts.items() if OWN not in text}
    left_out = {first_word(text).upper() for text in texts.values() if not is_kept(text)}
    if left_out := left_out - _OF_BLOCKS:
        gaps.append(f"utility statements are left out: {listed(sorted(left_out))}")
    changed = _changed(server, load)
    with _schema(server, load, texts, gaps) as schema:
        recursion = Recursion(schema)
        found = _statements(schema, texts, load, recursion, gaps)
        inserted = {table.full_name: rows.inserted / load.seconds for table, rows in changed}
        statements = with_added(_with_parsed(found, server, load), inserted)
        told = recursion.with_paths(schema.tables)
        told = with_nulls(told, statements.values(), schema.functions)
        told = with_widths(told, statements.values())
        # Statements found the rows of the middle of the period.
        rows = {
            table.full_name: table.rows + (each.inserted - each.deleted) / 2
            for table, each in changed
        }
        tables = with_distinct(told, statements.values(), rows)
        more = schema.gaps
        differing = server.settings.beside(SourceSettings(schema.connection))
    if not statements:
        raise _idle(load)
    calls = {key: load.rises[key]["calls"] or 0.0 for key in statements}
    keys = Keys(tables)
    kinds = with_belonging(_kinds(load, calls, gaps), statements, calls, keys)
    source = _source(server, load, statements)
    transactions = tuple(_transactions(kinds, statements, calls, load, keys))
    gaps += _unknown_commits(source, transactions)
    return Capture(
        format=FORMAT,
        version=VERSION,
        made_by=f"pgdyno {build_info()['version']}",
        source=source,
        tables=tables,
        statements=tuple(statements.values()),
        transactions=transactions,
        gaps=(*gaps, *more, _EVEN),
        functions=schema.functions,
        views=schema.views,
        settings=differing,
        applications=_applications(kinds, load),
        course=course_of(
            load.reads, load.samples.bursts, load.observed.own_transactions / load.seconds
        ),
    )


def _schema(
    server: SourceServer, load: Load, texts: Mapping[str, str], gaps: list[str]
) -> EmptySchema:
    """Return the schema, with what happened to its tables in the period."""
    catalogue = server.catalogue
    updated = catalogue.with_updates(load.updates, load.skews, load.seconds)
    by_id = load.accesses.with_scans(dict(zip(catalogue.ids, updated, strict=True)), load.seconds)
    return EmptySchema(*server.functions.of_load(texts.values(), by_id, gaps))


def _changed(server: SourceServer, load: Load) -> list[tuple[Table, Updates]]:
    """Return the tables with the rows that were inserted into them, updated and deleted."""
    catalogue = server.catalogue
    both = zip(catalogue.ids, catalogue.tables, strict=True)
    return [(table, load.updates.get(number, Updates())) for number, table in both]


def _source(server: SourceServer, load: Load, statements: Mapping[str, Statement]) -> Source:
    sessions, busy = load.samples.sessions(statements)
    with_parameters = [key for key, each in statements.items() if each.parameters]
    return Source(
        major=server.major,
        seconds=round(load.seconds, 1),
        transactions_per_s=round(_ended(load) / load.seconds, 3),
        sessions=sessions,
        busy_sessions=round(busy, 2),
        is_simple=load.samples.sends_values(with_parameters),
        **behaviour_of(load.observed, load.samples),
    )


def _unknown_commits(source: Source, transactions: Sequence[Transaction]) -> Iterator[str]:
    """Yield the share of the server's transactions that is not in the capture, if it matters."""
    known = sum(each.commits_per_s for each in transactions)
    share = 1 - known / source.transactions_per_s if source.transactions_per_s else 0.0
    if share > _SHARE_TOLD + _REPORTED_S / source.seconds:
        yield (
            f"{percent(share)} of the server's transactions have none of the captured statements:"
            " the clone does without them"
        )


def _ended(load: Load) -> float:
    """Return the transactions of the load, without the capture's own, and without those of a SET
    alone: outside of blocks as many as there may be."""
    ended = load.transactions - own_transactions(load.observed, load.samples)
    settings = _calls_of(load, lambda text: _SETTING.match(text) is not None)
    outside = ended - _calls_of(load, begins)
    return max(0.0, ended - max(0.0, min(settings, outside)))


def _calls_of(load: Load, is_one: Callable[[str], bool]) -> float:
    """Return the calls of some statements, by their texts, without the capture's own."""
    texts = ((key, text) for key, text in load.texts.items() if OWN not in text)
    return sum(load.rises[key]["calls"] or 0.0 for key, text in texts if is_one(text))


def _applications(kinds: Sequence[Kind], load: Load) -> tuple[Application, ...]:
    logged = ((each.client, each.statements) for each in load.log.transactions)
    seen = [*load.samples.by_client(), *logged]
    return applications_of(kinds, seen, load.samples.connected(), load.seconds)


def _idle(load: Load) -> SetupError:
    """Return the error where a load has no statement."""
    if load.server["query_ids"] == "off":
        return SetupError(
            "the server gives statements no ids (compute_query_id is off)",
            code="capture-query-ids",
            hint="ALTER SYSTEM SET compute_query_id = 'auto'; SELECT pg_reload_conf()",
        )
    if not load.server["sees_others"]:
        return SetupError(
            "the role may not see statements of other roles",
            code="capture-statements",
            hint="GRANT pg_monitor TO the role",
        )
    return SetupError(
        f"no statement that a load could have was executed in {load.seconds:.0f} s",
        code="capture-idle",
        hint="capture the server while it works, or longer (-T)",
    )


def _kinds(load: Load, calls: Mapping[str, float], gaps: list[str]) -> list[Kind]:
    """Return the kinds of transactions; what is guessed of them goes to the ``gaps``."""
    seen = Seen(load.seconds, load.samples.sequences(), load.samples.runs())
    others = _calls_of(load, is_kept) - sum(calls.values())
    kinds = all_kinds(
        calls,
        load.log.transactions,
        seen,
        _calls_of(load, begins),
        _ended(load) or None,
        max(0.0, others),
    )
    if any(each.guessed for each in kinds):
        gaps.append(
            "statements that are executed equally often are taken for one transaction: none was"
            " seen long enough"
        )
    if any(each.is_unit for each in kinds):
        gaps.append(
            "statements that commit by themselves are taken for one unit of work where the same"
            " sessions execute them equally often"
        )
    return kinds


def _statements(
    schema: EmptySchema,
    texts: Mapping[str, str],
    load: Load,
    recursion: Recursion,
    gaps: list[str],
) -> dict[str, Statement]:
    """Return the statements that can be executed on the schema."""
    found: dict[str, Statement] = {}
    calls_of = Calls(schema.connection, schema.by_name)
    refused = []
    kept = {key: text for key, text in texts.items() if is_kept(text)}
    for key, text in kept.items():
        try:
            plain, parameters = planned(schema.connection, without_values(text), schema.by_name)
        except Unplannable as why:
            refused.append(str(why))
            continue
        if (known := recursion.parameters(plain, parameters)) is None:
            continue
        rise = load.rises[key]
        calls = rise["calls"] or 1.0
        statement = Statement(
            text=plain,
            parameters=calls_of.resolved(plain, known),
            calls_per_s=round(calls / load.seconds, 4),
            rows=round((rise["rows"] or 0.0) / calls, 4),
            ms=round((rise["exec_ms"] or 0.0) / calls, 6),
            wal_bytes=round((rise["wal_bytes"] or 0.0) / calls, 2),
        )
        found[key] = load.accesses.with_pages(statement, key, rise)
    if recursion.left_out:
        number = counted(recursion.left_out, "recursive query is", "recursive queries are")
        gaps.append(f"{number} left out: rows here may refer to each other in a circle")
    if refused:
        number = counted(len(refused), "statement is", "statements are")
        gaps.append(f"{number} left out, as the schema here does not have all of it: {refused[0]}")
    unknown = sum(p.use == "other" for each in found.values() for p in each.parameters)
    if unknown:
        number = counted(unknown, "parameter belongs", "parameters belong")
        gaps.append(f"{number} to no column that is known: the values are random")
    return found


def _with_parsed(
    statements: Mapping[str, Statement], server: SourceServer, load: Load
) -> dict[str, Statement]:
    """Return the statements, with those that are parsed each time: all that are the same but for
    their number of rows, or none. Older servers have no id for prepared ones either."""
    same: defaultdict[str, list[str]] = defaultdict(list)
    for key, each in statements.items():
        same[each.without_rows].append(key)
    tells = server.major >= _TELLS_PARSED_SINCE
    parsed = {name for name, keys in same.items() if tells and load.samples.are_parsed(keys)}
    return {
        key: replace(each, is_parsed=True) if each.without_rows in parsed else each
        for key, each in statements.items()
    }


def _transactions(
    kinds: Sequence[Kind],
    statements: Mapping[str, Statement],
    calls: Mapping[str, float],
    load: Load,
    keys: Keys,
) -> Iterator[Transaction]:
    numbers = {key: number for number, key in enumerate(statements)}
    for kind in kinds:
        per_s = round(kind.transactions / load.seconds, 4)
        if kind.times:
            both = zip(kind.statements, kind.times, kind.shares, strict=True)
            logged = (Step(numbers[one], round(n, 3), round(share, 3)) for one, n, share in both)
            # Statements of a pipeline without a block commit together.
            block = kind.block or len(kind.statements) > 1
            yield Transaction(per_s, tuple(logged), block)
            continue
        executed = _executed({each: calls[each] for each in kind.statements}, statements)
        steps = tuple(
            Step(numbers[each], round(executed[each] / max(1.0, kind.transactions), _DIGITS))
            for each in _ordered(kind, statements, keys)
        )
        yield Transaction(per_s, steps, kind.block)


def _executed(calls: Mapping[str, float], statements: Mapping[str, Statement]) -> dict[str, float]:
    """Return the executions of a transaction's statements, those with all numbers of rows together
    as often as others."""
    texts = {each: statements[each].without_rows for each in calls}
    together = Counter[str]()
    for each, count in calls.items():
        together[texts[each]] += count  # type: ignore[assignment]
    even = evened(together)
    return {each: calls[each] * even[text] / together[text] for each, text in texts.items()}


def _ordered(kind: Kind, statements: Mapping[str, Statement], keys: Keys) -> Sequence[str]:
    """Return the statements of a kind in an order that they can have; of a unit, or of what is
    taken for a transaction, from the one on with which it begins."""
    ids = kind.statements
    texts = [statements[each] for each in ids]
    if kind.block and not (kind.guessed or kind.looped):
        return [ids[place] for place in possible_order(texts, keys)]
    ids = tuple(ids[place] for place in together_but_for_rows(texts))
    texts = [statements[each] for each in ids]
    return [ids[place] for place in from_beginning(texts, keys, is_loop=kind.looped)]
