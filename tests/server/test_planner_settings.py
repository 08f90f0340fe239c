"""Settings that are read while a statement is planned: sessions that keep a statement prepared have
the plan that was made under the value before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.server import connect_plain
from pgdyno.spec import Change, spec_from_fields

pytestmark = pytest.mark.server

NO_INDEX = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
FLUSHED_S = 2.0
LOOKUP = "\\set aid random(1, 1000)\nselect abalance from pgbench_accounts where aid = :aid;\n"


def index_scans(session: Session, table: str) -> int:
    with connect_plain(session.target.conninfo) as connection:
        connection.execute("select pg_stat_clear_snapshot()")
        found = connection.execute(
            "select idx_scan from pg_stat_user_tables where relname = %s", [table]
        ).fetchone()
    assert found is not None
    return int(found[0])


def scans_each(session: Session, table: str) -> tuple[int, int]:
    """Index scans of a slice, and its transactions, each of which looks for one row."""
    # What sessions count arrives within a second or so.
    session.wait(FLUSHED_S)
    before = index_scans(session, table)
    slice_id = session.slice(1.0, kind="baseline")
    session.wait(FLUSHED_S)
    return index_scans(session, table) - before, session.reader().ledger([slice_id]).done


def assert_plans_follow(fields: dict[str, Any], path: Path, table: str) -> None:
    """Statements use the index in those slices whose setting permits it, and in no others."""
    server = {"kind": "embedded", "settings": NO_INDEX}
    spec = spec_from_fields(
        {"name": "planned", "server": server, "clients": [{"name": "web", "count": 2}], **fields}
    )
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        for change in (Change(), Change(settings={"enable_indexscan": "on"}), Change()):
            session.provide(change)
            session.apply(change)
            scans, done = scans_each(session, table)
            assert done > 0
            assert (scans >= done) if change.settings else (scans == 0)


@pytest.mark.parametrize(
    ("protocol", "pooler"), [("prepared", {}), ("simple", {}), ("prepared", {"kind": "pgbouncer"})]
)
def test_a_load_plans_its_statements_again_under_another_setting(
    tmp_path: Path, protocol: str, pooler: dict[str, Any]
) -> None:
    script = tmp_path / "lookup.sql"
    script.write_text(LOOKUP)
    fields = {
        "workload": {"script": [{"file": str(script)}], "scale": 1},
        "load": {"protocol": protocol, "seed": 1},
        "pooler": pooler,
    }
    assert_plans_follow(fields, tmp_path / "run.db", "pgbench_accounts")


def test_a_front_end_plans_its_statements_again_under_another_setting(tmp_path: Path) -> None:
    fields = {"front": {}, "workload": {"script": [{"request": "/product?id=7"}]}}
    assert_plans_follow(fields, tmp_path / "run.db", "business_products")
