"""The built-in workload business: its tables, its statements, and sums that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.conduct import Silent, open_session
from pgdyno.drill._workloads import SUMS, checked_after, differences
from pgdyno.errors import SetupError, UsageError
from pgdyno.investigate.run import run_spec
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec import ScriptPart, spec_from_fields
from pgdyno.spec.workload import WorkloadSpec
from pgdyno.workload import Tables, load_mix, own_database_needed, prepare
from pgdyno.workload._found import BUSINESS_COLUMNS
from pgdyno.workload.builtin import builtin_texts

pytestmark = [pytest.mark.server, pytest.mark.alike]

SCRIPTS = ("business", "business-browse", "business-payment", "business-stream", "business-desk")


def silent(what: str, done: int, total: int) -> None:
    """Looks away."""


@pytest.fixture
def database(pg: Cluster) -> Iterator[ConnInfo]:
    """The database pgdyno, without the tables of business before and after."""
    drop = f"drop table if exists {', '.join(BUSINESS_COLUMNS)}".encode()
    with connect_plain(pg.conninfo) as conn:
        conn.execute(drop)
        yield replace(pg.conninfo, database_named=False)
        conn.execute(drop)


def test_orders_have_30_or_34_statements() -> None:
    text = builtin_texts()["business"]
    common, seventh = re.fullmatch(r"(.*)\\if :items = 7(.*)\\endif.*", text, re.DOTALL).groups()  # type: ignore[union-attr]
    ended = r"(?:;|\\gset)$"
    assert len(re.findall(ended, text, re.MULTILINE)) == 34
    assert len(re.findall(ended, seventh, re.MULTILINE)) == 4
    assert len(re.findall(r"^update business_stock", common, re.MULTILINE)) == 6


def test_scripts_are_of_one_kind_of_tables() -> None:
    assert load_mix("business").tables is Tables.BUSINESS
    parts = [ScriptPart(builtin=name) for name in ("tpcb-like", "business")]
    with pytest.raises(UsageError, match="cannot be in one mix"):
        load_mix(parts)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_runs_and_leaves_sums_that_agree(
    pg: Cluster, database: ConnInfo, tmp_path: Path, script: str
) -> None:
    parts = [{"builtin": "business", "weight": 1}, {"builtin": script, "weight": 2}]
    fields = {
        "server": {"kind": "existing", "conninfo": database.uri_without_password},
        "workload": {"script": parts if script != "business" else script, "scale": 1},
        "clients": [{"count": 4}],
        "load": {"hold": "5min", "transactions": 30},
    }
    path = tmp_path / "run.db"
    with open_session(
        spec_from_fields(fields), run=path, command="run", spec_text="", watcher=Silent()
    ) as session:
        ledger = run_spec(session).ledger
    assert (ledger.done, ledger.failed) == (120, 0)
    with connect_plain(database) as conn:
        assert differences(conn) == dict.fromkeys(SUMS, 0)
        texts = [builtin_texts()["business"], builtin_texts()[script]]
        assert checked_after(conn, texts) == ("business",)
        assert checked_after(conn, [*texts, "delete from business_orders"]) == ()
        conn.execute("delete from business_order_lines where line = 1")
        assert {name for name, by in differences(conn).items() if by} == {"stock", "order lines"}


def test_tables_are_made_once_and_at_the_scale(database: ConnInfo) -> None:
    workloads = [load_mix("business")]
    assert prepare(database, workloads, WorkloadSpec(scale=1), silent).tables == "made"
    kept = prepare(database, workloads, WorkloadSpec(), silent)
    assert (kept.tables, kept.scale) == ("kept", 1)
    given = WorkloadSpec.model_validate({"scale": 2})
    assert given.scale_given
    made = prepare(database, workloads, given, silent)
    assert (made.tables, made.scale) == ("made", 2)
    named = replace(database, database="postgres", database_named=True)
    assert own_database_needed(named, workloads, WorkloadSpec())
    with pytest.raises(SetupError) as caught:
        prepare(named, workloads, WorkloadSpec(), silent)
    assert caught.value.hint == snapshot("-i makes the tables of business there")


def test_a_foreign_table_is_left_alone(database: ConnInfo) -> None:
    with connect_plain(database) as conn:
        conn.execute("create table business_orders (mine int)")
        with pytest.raises(SetupError, match="business_orders in the database pgdyno is a table"):
            prepare(database, [load_mix("business")], WorkloadSpec(), silent)
        assert conn.execute("select count(*) from business_orders").fetchone() == (0,)
