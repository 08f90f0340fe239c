"""A capture file in words: all that it has."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.clone.capture_file import Capture, Column, Statement, Table
from pgdyno.numbers import counted, duration, figure, percent, size

_PAGE_BYTES = 8192


def capture_text(capture: Capture) -> list[str]:
    """Return all of a capture in lines."""
    return [
        *_source(capture),
        "",
        *_transactions(capture),
        "",
        *_tables(capture),
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
        + (f" {parameter.use} {parameter.table}.{parameter.column}" if parameter.column else "")
        + (f" {parameter.use}" if parameter.use in ("limit", "offset") else "")
        for number, parameter in enumerate(each.parameters, 1)
    ]
    if uses:
        yield f"    {'; '.join(uses)}"


def _tables(capture: Capture) -> Iterator[str]:
    for table in capture.tables:
        yield (
            f"table {table.full_name}: {table.rows:,.0f} rows, {size(table.pages * _PAGE_BYTES)}"
        )
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
    if table.options:
        yield f"  with {', '.join(table.options)}"


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
    if column.width_bytes is not None:
        parts.append(f"{figure(column.width_bytes)} bytes")
    if column.frequent:
        parts.append(f"the most common {percent(column.frequent[0])}")
    return f" ({', '.join(parts)})" if parts else ""


def _gaps(capture: Capture) -> Iterator[str]:
    for each in capture.gaps:
        yield f"note: {each}"
