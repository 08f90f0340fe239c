"""The built-in workload tpcc-like: its tables, its five transactions, and the conditions that hold
in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pgdyno.conduct import Silent, open_session
from pgdyno.drill._workloads import checked_after
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.report import write_html
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results.run import RunResult
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec import spec_from_fields
from pgdyno.spec.workload import WorkloadSpec
from pgdyno.workload import Tables, consistency, load_mix, prepare
from pgdyno.workload._found import TPCC_COLUMNS
from pgdyno.workload._tpcc import FUNCTIONS
from pgdyno.workload.builtin import builtin_texts
from pgdyno.workload.cleanup import clean_up, plan_cleanup

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

pytestmark = [pytest.mark.server, pytest.mark.alike]
_PARTS = ("new-order", "payment", "order-status", "delivery", "stock-level")


def silent(what: str, done: int, total: int) -> None:
    """Looks away."""


@pytest.fixture(scope="module")
def database(pg18: Cluster) -> Iterator[ConnInfo]:
    """The database pgdyno, with the tables of tpcc-like for two warehouses."""
    found = replace(pg18.conninfo, database_named=False)
    drop = f"drop table if exists {', '.join(TPCC_COLUMNS)}".encode()
    with connect_plain(pg18.conninfo) as conn:
        conn.execute(drop)
        prepared = prepare(found, [load_mix("tpcc-like")], WorkloadSpec(scale=2), silent)
        assert (prepared.tables, prepared.scale) == ("made", 2)
        yield found
        routines = ", ".join(FUNCTIONS)
        conn.execute(f"drop routine {routines}".encode())
        conn.execute(drop)


def _loaded(database: ConnInfo, path: Path, workload: dict[str, Any], **load: Any) -> RunResult:
    fields = {
        "server": {"kind": "existing", "conninfo": database.uri_without_password},
        "workload": workload,
        "clients": [{"count": load.pop("clients", 4)}],
        "load": {"hold": "5min", **load},
    }
    with open_session(
        spec_from_fields(fields), run=path, command="run", spec_text="", watcher=Silent()
    ) as session:
        return run_spec(session)


def _broken(conn: Control) -> set[str]:
    """Return the rules that do not hold."""
    return {rule for rule, count in consistency(conn, Tables.TPCC).broken.items() if count}


def test_the_rows_are_those_of_the_standard(database: ConnInfo) -> None:
    with connect_plain(database) as conn:

        def count(what: str) -> int:
            row = conn.execute(f"select count(*) from {what}".encode()).fetchone()
            assert row is not None
            return int(row[0])

        of_warehouse = "where c_w_id = 2 and c_last = 'BARBARBAR' and c_id <= 1000"
        assert count("tpcc_items") == 100_000
        assert count("tpcc_stock") == 200_000
        assert count("tpcc_customers") == count("tpcc_history") == 60_000
        assert count(f"tpcc_customers {of_warehouse}") == 10
        assert 0.09 < count("tpcc_customers where c_credit = 'BC'") / 60_000 < 0.11
        assert 0.09 < count("tpcc_items where i_data like '%ORIGINAL%'") / 100_000 < 0.11
        per_order = count("tpcc_order_lines") / count("tpcc_orders")
        assert 9.8 < per_order < 10.2
        assert _broken(conn) == set()


@pytest.mark.parametrize("name", ["tpcc-like", "tpcc-functions"])
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_each_transaction_runs_and_the_conditions_hold(
    database: ConnInfo, tmp_path: Path, protocol: str, name: str
) -> None:
    with connect_plain(database) as conn:
        before = consistency(conn, Tables.TPCC).counts["orders"]
        path = tmp_path / "run.db"
        result = _loaded(database, path, {"script": name}, protocol=protocol, transactions=100)
        assert (result.ledger.done, result.ledger.failed) == (400, 0)
        found = result.tpcc_like
        assert found is not None
        assert (found.consistent, found.broken) == (True, {})
        assert {*found.mix} == {*_PARTS}
        assert 0.35 < found.mix["new-order"] < 0.55
        after = consistency(conn, Tables.TPCC)
    assert after.counts["orders"] - before == found.new_orders
    assert found.transactions_per_min > found.new_orders_per_min > 0
    with RunFile(path) as run:
        summary = " ".join(line.text for line in summary_lines(run, 200))
        page = write_html(run, tmp_path / "page.html").read_text()
    for text in (summary, page):
        assert "onditions 1 to 4 of TPC-C hold" in text.replace("\u00a0", " ")


@pytest.mark.parametrize("name", ["tpcc-new-order", "tpcc-functions-new-order"])
def test_an_order_that_fails_leaves_nothing(database: ConnInfo, tmp_path: Path, name: str) -> None:
    """One in a hundred is rolled back, after its statements."""
    text = builtin_texts()[name]
    fails = text.replace("random(1, 100) = 1\n", "1 = 1\n")
    assert fails != text
    script = tmp_path / "fails.sql"
    script.write_text(fails)
    with connect_plain(database) as conn:
        before = consistency(conn, Tables.TPCC)
        workload = {"script": [{"file": str(script)}]}
        ledger = _loaded(database, tmp_path / "run.db", workload, transactions=5).ledger
        assert (ledger.done, ledger.failed) == (20, 0)
        assert consistency(conn, Tables.TPCC) == before


_DAMAGE = {
    "update tpcc_districts set d_ytd = d_ytd + 1 where d_id = 3":
        "warehouses whose payments are not those of their districts",
    "delete from tpcc_orders where (o_w_id, o_d_id, o_id) = (select o_w_id, o_d_id, max(o_id) from"
    " tpcc_orders group by o_w_id, o_d_id limit 1)":
        "districts whose next number does not follow their last order",
    "delete from tpcc_new_orders where (no_w_id, no_d_id, no_o_id) = (select no_w_id, no_d_id,"
    " min(no_o_id) + 1 from tpcc_new_orders group by no_w_id, no_d_id limit 1)":
        "districts with a gap in their new orders",
    "delete from tpcc_order_lines where ol_w_id = 1 and ol_d_id = 1 and ol_o_id = 1 and ol_number"
    " = 1":
        "districts whose orders have other lines than they say",
}  # fmt: skip
"""Damage and the rule that it breaks."""


@pytest.mark.parametrize("damage", _DAMAGE)
def test_a_condition_that_does_not_hold_is_found(database: ConnInfo, damage: str) -> None:
    with connect_plain(database) as conn, conn.transaction(force_rollback=True):
        conn.execute(damage.encode())
        assert _DAMAGE[damage] in _broken(conn)


def test_a_drill_checks_only_what_it_knows(database: ConnInfo) -> None:
    texts = [builtin_texts()[name] for name in ("tpcc-payment", "tpcc-functions-payment")]
    with connect_plain(database) as conn:
        assert checked_after(conn, texts[1:]) == ("tpcc-like",)
        assert checked_after(conn, texts) == ("tpcc-like",)
        assert checked_after(conn, [*texts, "delete from tpcc_stock"]) == ()


def test_with_keying_clients_type_and_think(database: ConnInfo, tmp_path: Path) -> None:
    workload = {"script": "tpcc-like", "variables": {"keying": 1}}
    ledger = _loaded(database, tmp_path / "run.db", workload, clients=20, hold="4s").ledger
    # Keying takes 2 to 18 s, and thinking 5 to 12 s on average.
    assert 0 < ledger.done < 20


def test_cleanup_removes_tables_and_functions_and_no_other(pg18: Cluster) -> None:
    shop = replace(pg18.conninfo, database="tpcc_shop", database_named=True)
    with connect_plain(pg18.conninfo) as conn:
        conn.execute(b"create database tpcc_shop")
    try:
        wanted = WorkloadSpec(scale=1, initialize=True)
        for _ in range(2):  # The second time, what is there is made again.
            prepare(shop, [load_mix("tpcc-like")], wanted, silent)
        with connect_plain(shop) as conn:
            conn.execute(b"create function tpcc_customer(text) returns int return 1")
        plan = plan_cleanup(shop)
        plan.removals = [each for each in plan.removals if each.database == "tpcc_shop"]
        clean_up(shop, [], plan, note=lambda _: None)
        with connect_plain(shop) as conn:
            left = conn.execute(
                b"select oid::regprocedure::text from pg_proc where proname ~ '^tpcc'"
            )
            assert left.fetchall() == [("tpcc_customer(text)",)]
            left = conn.execute(b"select count(*) from pg_class where relname ~ '^tpcc'")
            assert left.fetchone() == (0,)
    finally:
        with connect_plain(pg18.conninfo) as conn:
            conn.execute(b"drop database tpcc_shop with (force)")
