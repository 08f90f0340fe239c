r"""The workload ``ingest``: the same rows, brought in by one of several ways.

Each transaction of the script inserts ``TRANSACTION_ROWS`` rows, in commits of ``batch`` rows, so
that transactions per second of two ways are those of the same work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.spec.workload import TRANSACTION_ROWS, batch_of
from pgdyno.workload._found import INGEST_COLUMNS, FoundTable
from pgdyno.workload._own_tables import OwnTables
from pgdyno.workload._queries import query_in
from pgdyno.workload.table_space import ingest_space

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control
    from pgdyno.spec.workload import WorkloadSpec

_COLUMNS = "source, code, loaded, name, document"
_VALUES = (
    "random(1, 20), random(1, 1000000000), timestamp(random(1600000000, 1900000000)),"
    " random_text(8, 24), random_text(100, 200)"
)
_INSERT = f"insert into ingest_rows ({_COLUMNS}) values \\rows"


def ingest_script(wanted: WorkloadSpec) -> str:
    """Return the script for the way and the batch that are wanted."""
    batch = batch_of(wanted.ingest, wanted.batch)
    lines = [
        f"-- {TRANSACTION_ROWS} rows: {wanted.ingest}, {batch} in each commit.",
        *(line for _ in range(TRANSACTION_ROWS // batch) for line in _commit(wanted.ingest, batch)),
    ]
    return "\n".join(lines) + "\n"


def _commit(way: str, batch: int) -> Iterator[str]:
    """Yield the lines that bring in one batch, with its commit."""
    single = f"{_INSERT} 1 {_VALUES}"
    if way == "multirow":
        yield f"{_INSERT} {batch} {_VALUES}"
    elif way == "copy":
        yield f"copy ingest_rows ({_COLUMNS}) from stdin \\rows {batch} {_VALUES}"
    elif way == "pipeline":
        yield "\\startpipeline"
        yield from (single for _ in range(batch))
        yield "\\endpipeline"
    elif batch == 1:
        yield single
    else:
        yield "begin;"
        yield from (single for _ in range(batch))
        yield "commit;"


def _make(conn: Control, schema: str, _: WorkloadSpec) -> None:
    conn.execute(query_in(schema, "ingest_tables"))


def _scale(_: Control, __: Mapping[str, FoundTable], wanted: WorkloadSpec) -> int:
    """Return the scale that is wanted: the table is the same at each."""
    return wanted.scale


INGEST = OwnTables("ingest", INGEST_COLUMNS, _make, _scale, ingest_space)
