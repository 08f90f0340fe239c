"""Settings that are read while a statement is planned: sessions that keep a statement prepared have
the plan that was made under the value before."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.spec import Change, spec_from_fields

pytestmark = pytest.mark.server

NO_INDEX = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
FLUSHED_S = 2.0
LOOKUP = "select abalance from pgbench_accounts where aid = :aid"


def index_scans(session: Session) -> int:
    with session.connect() as connection:
        connection.execute("select pg_stat_clear_snapshot()")
        found = connection.execute(
            "select idx_scan from pg_stat_user_tables where relname = 'pgbench_accounts'"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_a_load_plans_its_statements_again_under_another_setting(
    tmp_path: Path, protocol: str
) -> None:
    script = tmp_path / "lookup.sql"
    script.write_text(f"\\set aid random(1, 1000)\n{LOOKUP};\n")
    spec = spec_from_fields(
        {
            "name": "planned",
            "server": {"kind": "embedded", "settings": NO_INDEX},
            "workload": {"script": [{"file": str(script)}], "scale": 1},
            "clients": [{"name": "web", "count": 2}],
            "load": {"protocol": protocol, "seed": 1},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        for change in (Change(), Change(settings={"enable_indexscan": "on"}), Change()):
            session.provide(change)
            session.apply(change)
            # What sessions count arrives within a second or so.
            session.wait(FLUSHED_S)
            before = index_scans(session)
            slice_id = session.slice(1.0, kind="baseline")
            session.wait(FLUSHED_S)
            scans, done = index_scans(session) - before, session.reader().ledger([slice_id]).done
            assert done > 0
            assert (scans >= done) if change.settings else (scans == 0)
