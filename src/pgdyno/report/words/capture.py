"""A capture file in words: all that it has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import median

from pgdyno.clone.capture_file import (
    Application,
    Capture,
    Column,
    Interval,
    Source,
    Statement,
    Step,
    Table,
    Use,
)
from pgdyno.clone.difference import (
    CALLS_MIN,
    SHARE,
    WEIGHT_MIN,
    Changed,
    Differences,
    Figure,
    by_time,
    per_s,
)
from pgdyno.clone.likeness import Compared, Failures, Likeness
from pgdyno.clone.schema import view_sql
from pgdyno.numbers import counted, duration, figure, percent, ratio, size
from pgdyno.spec.sql_text import shortened
from pgdyno.wait_events import CLASS_WORDS

_USES: Mapping[Use, str] = {
    "compared": "compared with",
    "least": "lower bound of",
    "most": "upper bound of",
    "inserted": "inserted into",
    "set": "written to",
    "added": "added to",
}
"""Uses of parameters, before the column."""
_HEAVIEST = 5
"""Statements that are named first."""
_CHARACTERS = 100
"""Of their texts."""
_OF_INTERVALS = (
    ("transactions", "/s", "transactions_per_s"),
    ("sessions", "", "sessions"),
    ("within a transaction", "", "busy_sessions"),
)
"""Name, unit and field of figures of the course."""
_DEFAULT = "the default"


def summary_text(capture: Capture) -> list[str]:
    """Return the load of a capture, and its gaps, in a few lines."""
    return [*_head(capture), *_gaps(capture)]


def capture_text(capture: Capture) -> list[str]:
    """Return all of a capture in lines."""
    return [
        *_head(capture),
        "",
        *_transactions(capture),
        "",
        *_tables(capture),
        *(line for each in capture.functions for line in each.sql.splitlines()),
        *(line for each in capture.views for line in view_sql(each).splitlines()),
        *_gaps(capture),
    ]


def _head(capture: Capture) -> Iterator[str]:
    yield from _source(capture)
    yield from _course(capture.course)
    yield from _applications(capture)
    yield from _heaviest(capture.statements)
    statements = counted(len(capture.statements), "statement", "statements")
    kinds = counted(len(capture.transactions), "kind", "kinds")
    tables = counted(len(capture.tables), "table", "tables")
    rows = sum(each.rows for each in capture.tables)
    of = size(sum(each.size_bytes for each in capture.tables))
    yield f"{statements} in {kinds} of transactions; {tables} with {rows:,.0f} rows, {of}"


def _heaviest(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield the statements with the most time, and their part of all time."""
    total = sum(per_s(each, "ms") for each in statements)
    if not total:
        return
    yield "statements that take the most time:"
    for each in by_time(statements)[:_HEAVIEST]:
        yield f"  {percent(per_s(each, 'ms') / total)}: {shortened(each.text, _CHARACTERS)}"


def _source(capture: Capture) -> Iterator[str]:
    source = capture.source
    yield (
        f"PostgreSQL {source.major}, watched for {duration(source.seconds)}:"
        f" {figure(source.transactions_per_s)} transactions/s,"
        f" {counted(source.sessions, 'session', 'sessions')},"
        f" {figure(source.busy_sessions)} of them within a transaction on average"
    )
    if source.is_simple:
        yield "clients send values within the texts of statements (simple protocol)"
    if parsed := sum(each.is_parsed for each in capture.statements):
        number = counted(parsed, "statement is", "statements are")
        yield f"{number} parsed each time: clients do not prepare them"
    yield from _behaviour(source)
    if capture.settings:
        yield f"settings: {', '.join(f'{name} = {v}' for name, v in capture.settings.items())}"


def _behaviour(source: Source) -> Iterator[str]:
    if source.cpu_ms is not None:
        yield f"CPU of a transaction: {figure(source.cpu_ms)} ms"
    if source.waits:
        parts = (f"{_wait(name)} {percent(share)}" for name, share in source.waits.items())
        yield f"sessions at work: {', '.join(parts)}"
    if source.findings:
        yield f"findings: {', '.join(f'{each.id} ({each.severity})' for each in source.findings)}"


def _course(course: Sequence[Interval]) -> Iterator[str]:
    """Yield the lowest, median and highest figures of the intervals, with the time of the first
    and the last one."""
    if not course:
        return
    ends = list(accumulate(each.seconds for each in course))
    yield f"course, in {len(course)} intervals of {duration(ends[-1] / len(course))}:"
    for name, unit, of in _OF_INTERVALS:
        values = [getattr(each, of) for each in course]
        low, high = (
            f"{figure(value)}{unit} after {duration(ends[values.index(value)])}"
            for value in (min(values), max(values))
        )
        yield f"  {name}: lowest {low}, median {figure(median(values))}{unit}, highest {high}"


def _applications(capture: Capture) -> Iterator[str]:
    for number, each in enumerate(capture.applications, 1):
        parts = [
            f"{place} ({figure(per_s)}/s)" for place, per_s in enumerate(each.per_s, 1) if per_s
        ]
        yield (
            f"application {number}: {counted(each.sessions, 'session', 'sessions')},"
            f" {figure(each.busy_sessions)} within a transaction; transactions {', '.join(parts)}"
        )


def _transactions(capture: Capture) -> Iterator[str]:
    for number, each in enumerate(capture.transactions, 1):
        block = "in a block" if each.block else "without a block"
        yield f"transaction {number}: {figure(each.per_s)}/s, {block}"
        for step in each.steps:
            yield from _statement(_often(step), capture.statements[step.statement])


def _often(step: Step) -> str:
    """Return how often a transaction executes a statement; '' for always and once."""
    is_sure = step.share is None or step.share == 1
    parts = [
        *([] if is_sure else [f"in {percent(step.share)}"]),
        *([] if figure(step.times) == figure(step.share or 1) else [f"{figure(step.times)} times"]),
    ]
    return f"{', '.join(parts)}: " if parts else ""


def _statement(times: str, each: Statement) -> Iterator[str]:
    yield f"  {times}{each.text}"
    rows = counted(each.rows, "row", "rows")
    yield (
        f"    {figure(each.calls_per_s)}/s, {figure(each.ms)} ms,"
        f" {rows}{_pages(each)} and {size(each.wal_bytes)} of WAL a call"
    )
    uses = [
        f"${number} {parameter.type}"
        + (
            f" {_USES.get(parameter.use, parameter.use)} {parameter.table}.{parameter.column}"
            if parameter.column
            else ""
        )
        + (f" {parameter.use}" if parameter.use in ("limit", "offset") else "")
        for number, parameter in enumerate(each.parameters, 1)
    ]
    if uses:
        yield f"    {'; '.join(uses)}"


def _pages(each: Statement) -> str:
    return "" if each.pages is None else f", {counted(each.pages, 'page', 'pages')}"


def _tables(capture: Capture) -> Iterator[str]:
    for table in capture.tables:
        yield (f"table {table.full_name}: {table.rows:,.0f} rows, {size(table.size_bytes)}")
        yield from _parts(table)


def _parts(table: Table) -> Iterator[str]:
    for column in table.columns:
        yield f"  {column.name} {column.type}{_statistics(column)}"
    for number, key in enumerate(table.keys):
        kind = "primary key" if table.has_primary and not number else "unique"
        yield f"  {kind} ({', '.join(key)})"
    for each in table.references:
        yield f"  ({', '.join(each.columns)}) references {each.table} ({', '.join(each.keys)})"
    if table.path:
        yield f"  recursive queries go from row to row by {' and '.join(table.path)}"
    for index in table.indexes:
        yield f"  {'unique ' if index.unique else ''}index {index.sql}"
    yield from (f"  {each}" for each in table.checks)
    yield from (f"  {each}" for each in table.triggers)
    if table.options:
        yield f"  with {', '.join(table.options)}"
    if table.partitions is not None:
        by = f"{table.partitions.strategy} ({', '.join(table.partitions.columns)})"
        yield f"  {table.partitions.count} partitions by {by}"
    if table.hot_share is not None:
        skew = table.update_skew
        spread = "" if skew is None else f", spread over the rows {_spread(skew)}"
        hot = f"{percent(table.hot_share)} of them HOT"
        yield f"  {figure(table.updates_per_s)} updates/s, {hot}{spread}"
    for scans in table.scans:
        by = f"by the index on {scans.index}" if scans.index else "of the whole table"
        yield f"  {figure(scans.per_s)} scans/s {by}"


def _spread(skew: float) -> str:
    return f"by Zipf's law with an exponent of {skew:g}" if skew else "evenly"


def _statistics(column: Column) -> str:
    parts = ["not null"] if column.not_null else []
    if column.has_sequence:
        parts.append("by a sequence")
    elif column.default != "none":
        parts.append(f"default: a {column.default}")
    if column.generated:
        parts.append(f"computed as {column.generated}")
    if column.labels:
        parts.append(counted(column.labels, "label", "labels"))
    if column.null_share:
        parts.append(f"{percent(column.null_share)} null")
    if column.distinct is not None:
        share = column.distinct < 0
        parts.append(
            f"{percent(-column.distinct)} of the rows different"
            if share
            else f"{column.distinct:,.0f} different"
        )
    if column.elements is not None:
        parts.append(f"{figure(column.elements)} elements")
    if column.distinct_elements is not None:
        parts.append(f"{column.distinct_elements:,.0f} different elements")
    if column.width_bytes is not None:
        parts.append(f"{figure(column.width_bytes)} bytes")
    if column.frequent:
        parts.append(f"the most common {percent(column.frequent[0])}")
    return f" ({', '.join(parts)})" if parts else ""


def _gaps(capture: Capture) -> Iterator[str]:
    for each in capture.gaps:
        yield f"note: {each}"


def differences_text(found: Differences) -> list[str]:
    """Return the differences between two captures in lines."""
    return [
        _figure(found.transactions),
        *map(_figure, found.sessions),
        *(f"sessions at work, {_wait(each.name)}: {_values(each)}" for each in found.waits),
        *(f"new finding: {each}" for each in found.new_findings),
        *(f"gone finding: {each}" for each in found.gone_findings),
        *(
            f"setting: {each.name}: {each.before or _DEFAULT} before and"
            f" {each.after or _DEFAULT} after"
            for each in found.settings
        ),
        *(f"new application: {_of_application(each)}" for each in found.new_applications),
        *(f"gone application: {_of_application(each)}" for each in found.gone_applications),
        *(line for each in found.changed_applications for line in _changed(each)),
        f"{counted(found.statements, 'statement', 'statements')} of both,"
        f" {len(found.new_statements)} new and {len(found.gone_statements)} gone;"
        f" {counted(found.tables, 'table', 'tables')} of both,"
        f" {len(found.new_tables)} new and {len(found.gone_tables)} gone",
        *(f"new: {each.text} ({_load(each)})" for each in found.new_statements),
        *(f"gone: {each.text} ({_load(each)})" for each in found.gone_statements),
        *(line for each in found.changed_statements for line in _changed(each)),
        *_in_numbers(found),
        *(f"new table: {each}" for each in found.new_tables),
        *(f"gone table: {each}" for each in found.gone_tables),
        *(line for each in found.changed_tables for line in _changed(each)),
    ]


def _in_numbers(found: Differences) -> Iterator[str]:
    """Yield how many statements are not listed."""
    if found.light_statements:
        number = counted(found.light_statements, "more statement differs", "more statements differ")
        yield f"{number}, with less than {percent(WEIGHT_MIN)} of the time, or of the WAL, each"
    if found.rare_statements:
        number = counted(found.rare_statements, "statement", "statements")
        yield (
            f"{number} of one alone executed fewer than {CALLS_MIN:.0f} times, and not listed:"
            " the other may have missed them"
        )


def _load(statement: Statement) -> str:
    return f"{figure(statement.calls_per_s)}/s, {figure(statement.ms)} ms a call"


def _changed(each: Changed) -> Iterator[str]:
    yield f"differs: {each.name}"
    for one in each.figures:
        yield f"  {_figure(one)}"
    yield from (f"  new: {part}" for part in each.added)
    yield from (f"  gone: {part}" for part in each.removed)


def _of_application(each: Application) -> str:
    return f"{counted(each.sessions, 'session', 'sessions')}, {figure(sum(each.per_s))}/s"


def _figure(each: Figure) -> str:
    return f"{each.name}: {_values(each)}"


def _values(each: Figure) -> str:
    first, second = _value(each.before, each.unit), _value(each.after, each.unit)
    times = "" if each.ratio is None else f", {ratio(each.ratio)}"
    return f"{first} before and {second} after{times}"


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    if unit == SHARE:
        return percent(value)
    return f"{figure(value)}{'' if unit == '/s' else ' ' if unit else ''}{unit}"


def likeness_text(found: Likeness) -> list[str]:
    """Return a clone's likeness in lines, what is unlike first, in its kinds."""
    by_verdict: defaultdict[str, list[Compared]] = defaultdict(list)
    for each in found.compared:
        by_verdict[each.verdict].append(each)
    kinds = Counter(each.kind for each in by_verdict["unlike"])
    verdict = (
        f"alike in all {found.judged:,} figures"
        if found.is_alike
        else f"unlike in {found.unlike:,} of {found.judged:,} figures"
        f" ({', '.join(f'{kind} {count:,}' for kind, count in kinds.items())})"
    )
    return [
        f"{verdict}, of {counted(found.done, 'transaction', 'transactions')} of the clone",
        *(line for each in found.failures for line in _failures(each)),
        *(line for each in by_verdict["unlike"] for line in _compared(each)),
        *(line for each in by_verdict["alike"] if not each.of for line in _compared(each)),
        *_in_short(by_verdict["alike"]),
        *_not_known(by_verdict["unknown"]),
    ]


def _failures(each: Failures) -> Iterator[str]:
    yield f"failed: {counted(each.count, 'transaction', 'transactions')}: {each.words}"
    yield f"  {each.statement}"


def _not_known(unknown: Sequence[Compared]) -> Iterator[str]:
    """Yield one line for all figures of a name that are not known for one reason."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in unknown:
        groups[each.name, each.why].append(each.of)
    for (name, why), ofs in groups.items():
        which = f" ({len(ofs):,})" if len(ofs) > 1 else f": {ofs[0]}" if ofs[0] else ""
        yield f"not known: {name}{which}: {why}"


def _compared(each: Compared) -> Iterator[str]:
    sides = (
        f"{_side(value, each.unit)} {of}"
        for value, of in ((each.source, "of the source"), (each.clone, "of the clone"))
    )
    by = "" if each.ratio is None else f", {ratio(each.ratio)}"
    if each.points:
        by = f", {figure(abs(each.points))} points {'less' if each.points < 0 else 'more'}"
    yield f"{each.verdict}, {each.kind}: {each.name}: {' and '.join(sides)}{by}"
    if each.of:
        yield f"  {_wait(each.of)}"


def _wait(name: str) -> str:
    return CLASS_WORDS.get(name, "CPU" if name == "cpu" else name)


def _side(value: float | str | None, unit: str) -> str:
    if isinstance(value, str):
        return value or "none"
    return _value(value or 0.0, unit)


def _in_short(alike: Sequence[Compared]) -> Iterator[str]:
    """Yield one line for all figures of single statements, tables and waits that are alike."""
    counts = Counter(each.name for each in alike if each.of)
    if counts:
        yield f"alike: {', '.join(f'{name} ({count:,})' for name, count in counts.items())}"
