"""A capture file in words: all that it has."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.capture import Alike
from pgdyno.clone.capture_file import Capture, Column, Statement, Table
from pgdyno.clone.difference import HOT_SHARE, SHARE, Changed, Differences, Figure
from pgdyno.numbers import counted, duration, figure, percent, ratio, size

_USES = {"least": "lower bound of", "most": "upper bound of"}
"""Uses of parameters that are no words by themselves."""
_TIMES = ("before", "after")
_OF_CLONE = ("of the source", "of the clone")


def capture_text(capture: Capture) -> list[str]:
    """Return all of a capture in lines."""
    return [
        *_source(capture),
        "",
        *_transactions(capture),
        "",
        *_tables(capture),
        *(line for each in capture.functions for line in each.sql.splitlines()),
        *_gaps(capture),
    ]


def _source(capture: Capture) -> Iterator[str]:
    source = capture.source
    yield (
        f"PostgreSQL {source.major}, watched for {duration(source.seconds)}:"
        f" {figure(source.transactions_per_s)} transactions/s,"
        f" {counted(source.sessions, 'session', 'sessions')},"
        f" {figure(source.busy_sessions)} of them within a transaction on average"
    )


def _transactions(capture: Capture) -> Iterator[str]:
    for number, each in enumerate(capture.transactions, 1):
        block = "in a block" if each.block else "without a block"
        yield f"transaction {number}: {figure(each.per_s)}/s, {block}"
        for step in each.steps:
            times = "" if step.times == 1 else f"{figure(step.times)} times: "
            yield from _statement(times, capture.statements[step.statement])


def _statement(times: str, each: Statement) -> Iterator[str]:
    yield f"  {times}{each.text}"
    yield (
        f"    {figure(each.calls_per_s)}/s, {figure(each.ms)} ms,"
        f" {figure(each.rows)} rows and {size(each.wal_bytes)} of WAL a call"
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
    for index in table.indexes:
        yield f"  {'unique ' if index.unique else ''}index {index.sql}"
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


def _spread(skew: float) -> str:
    return f"by Zipf's law with an exponent of {skew:g}" if skew else "evenly"


def _statistics(column: Column) -> str:
    parts = ["not null"] if column.not_null else []
    if column.identity or column.default == "sequence":
        parts.append("by a sequence")
    elif column.default != "none":
        parts.append(f"default: a {column.default}")
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
        f"{counted(found.statements, 'statement', 'statements')} of both,"
        f" {len(found.new_statements)} new and {len(found.gone_statements)} gone;"
        f" {counted(found.tables, 'table', 'tables')} of both,"
        f" {len(found.new_tables)} new and {len(found.gone_tables)} gone",
        *(f"new: {each.text} ({_load(each)})" for each in found.new_statements),
        *(f"gone: {each.text} ({_load(each)})" for each in found.gone_statements),
        *(line for each in found.changed_statements for line in _changed(each)),
        *(f"new table: {each}" for each in found.new_tables),
        *(f"gone table: {each}" for each in found.gone_tables),
        *(line for each in found.changed_tables for line in _changed(each)),
    ]


def _load(statement: Statement) -> str:
    return f"{figure(statement.calls_per_s)}/s, {figure(statement.ms)} ms a call"


def _changed(each: Changed, sides: tuple[str, str] = _TIMES) -> Iterator[str]:
    yield f"differs: {each.name}"
    for one in each.figures:
        yield f"  {_figure(one, sides)}"
    yield from (f"  new: {part}" for part in each.added)
    yield from (f"  gone: {part}" for part in each.removed)


def _figure(each: Figure, sides: tuple[str, str] = _TIMES) -> str:
    first, second = _value(each.before, each.unit), _value(each.after, each.unit)
    times = "" if each.ratio is None else f", {ratio(each.ratio)}"
    return f"{each.name}: {first} {sides[0]} and {second} {sides[1]}{times}"


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    if unit == SHARE:
        return percent(value)
    return f"{figure(value)}{'' if unit == '/s' else ' ' if unit else ''}{unit}"


_KINDS = {
    "data": ("rows a call", "WAL of a call"),
    "performance": ("calls", "time of a call"),
}
"""Kinds of differences between a load and its clone: figures of statements."""


def alike_text(found: Alike) -> list[str]:
    """Return a clone's likeness in lines, what is unlike first."""
    both = found.differences
    failed = percent(found.failed / found.done) if found.failed else "none"
    unlike = {
        kind: [
            each
            for each in both.changed_statements
            if any(figure.name in names for figure in each.figures)
        ]
        for kind, names in _KINDS.items()
    }
    missing, all_statements = len(both.gone_statements), both.statements + len(both.gone_statements)
    return [
        _figure(both.transactions, _OF_CLONE),
        f"errors: {failed} of {counted(found.done, 'transaction', 'transactions')} failed,"
        f" {missing} of {counted(all_statements, 'statement', 'statements')} missing",
        *(
            f"{kind}: {both.statements - len(each)} of"
            f" {counted(both.statements, 'statement', 'statements')} alike"
            for kind, each in unlike.items()
        ),
        *(f"missing: {each.text} ({_load(each)})" for each in both.gone_statements),
        *(line for each in both.changed_statements for line in _changed(each, _OF_CLONE)),
        *(line for each in _with_other_updates(both) for line in _changed(each, _OF_CLONE)),
    ]


def _with_other_updates(both: Differences) -> Iterator[Changed]:
    """Yield the tables whose updates differ; that a clone's tables grow says nothing."""
    for each in both.changed_tables:
        figures = tuple(one for one in each.figures if one.name == HOT_SHARE)
        if figures:
            yield Changed(each.name, figures)
