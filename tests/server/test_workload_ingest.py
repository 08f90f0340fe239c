"""The built-in workload ingest: the same rows by each way, and two ways compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from pgdyno.conduct import Silent, open_session
from pgdyno.dimension import change_of, sides_of
from pgdyno.errors import UsageError
from pgdyno.investigate.run import run_spec
from pgdyno.server import Cluster, ConnInfo
from pgdyno.spec import spec_from_fields
from pgdyno.spec.workload import TRANSACTION_ROWS

pytestmark = [pytest.mark.server, pytest.mark.alike]

WAYS = ("single", "multirow", "pipeline", "copy")


@pytest.fixture
def database(pg: Cluster) -> Iterator[ConnInfo]:
    """The database pgdyno, without the table of ingest before and after."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("drop table if exists ingest_rows")
        yield replace(pg.conninfo, database_named=False)
        conn.execute("drop table if exists ingest_rows")


def _fields(database: ConnInfo, **workload: Any) -> dict[str, Any]:
    return {
        "server": {"kind": "existing", "conninfo": database.uri_without_password},
        "workload": {"script": "ingest", "scale": 1, **workload},
        "clients": [{"count": 2}],
        "load": {"hold": "5min", "transactions": 3},
    }


@pytest.mark.parametrize("batch", [None, 10])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_brings_in_the_same_rows(
    database: ConnInfo, tmp_path: Path, way: str, batch: int | None
) -> None:
    workload = {"ingest": way, "batch": batch} if batch else {"ingest": way}
    spec = spec_from_fields(_fields(database, **workload))
    with open_session(
        spec, run=tmp_path / "run.db", command="run", spec_text="", watcher=Silent()
    ) as session:
        result = run_spec(session)
    assert (result.ledger.done, result.ledger.failed) == (6, 0)
    with psycopg.connect(**database.kwargs(), autocommit=True) as conn:
        rows, commits, columns = conn.execute(
            "select count(*), count(distinct xmin::text), bool_and(source between 1 and 20"
            " and length(name) between 8 and 24 and length(document) between 100 and 200)"
            " from ingest_rows"
        ).fetchone() or (0, 0, False)
    per_commit = batch or (1 if way == "single" else TRANSACTION_ROWS)
    assert (rows, columns) == (6 * TRANSACTION_ROWS, True)
    assert commits == rows // per_commit


def test_two_ways_are_the_sides_of_a_comparison(database: ConnInfo, tmp_path: Path) -> None:
    spec = spec_from_fields({**_fields(database), "load": {}})
    baseline, changed = sides_of({"workload.ingest": "single,copy"}, spec)
    assert (baseline, changed) == ({"workload.ingest": "single"}, {"workload.ingest": "copy"})
    change = change_of(keys=changed, spec=spec)
    with open_session(
        spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
    ) as session:
        session.start_load()
        session.apply(change)
        with session.measured("run"):
            session.wait(0.5)
        session.stop_load()
        statements = {row.statement.split()[0] for row in session.reader().statements()}
    assert "copy" in statements


def test_what_is_no_batch_or_no_ingest_is_refused() -> None:
    with pytest.raises(UsageError, match="30 does not divide 100 rows"):
        spec_from_fields({"workload": {"script": "ingest", "batch": 30}})
    with pytest.raises(UsageError, match="ingest"):
        spec_from_fields({"workload": {"script": "ingest", "ingest": "carrier"}})
    with pytest.raises(UsageError, match="of the workload ingest only"):
        change_of(keys={"workload.ingest": "copy"}, spec=spec_from_fields({}))
