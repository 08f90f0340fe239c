"""Verification after a fault: each check sees the damage that it is there for, and nothing else.

A clean crash and a clean shutdown are the null controls; damage done by hand to a stopped cluster
is the positive one of each check.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from engine_runs import config as load_config
from msgspec.structs import replace
from pgbench_tables import make_pgbench_tables

from patience import wait_until
from pgdyno._engine import Load, builtin_scripts
from pgdyno.drill import _checking
from pgdyno.drill._pages import scan_pages
from pgdyno.drill._recovery import recover
from pgdyno.drill._verify import Crashed, verify
from pgdyno.drill.model import Verified
from pgdyno.drill.witnesses import (
    WITNESS_TABLE,
    Witnesses,
    prepare,
    renew,
    witness_statement,
)
from pgdyno.errors import SetupError
from pgdyno.record import read_acks
from pgdyno.server import Cluster, Installation, connect, connect_plain
from pgdyno.server.local.account import change_owner, run_as, server_account
from pgdyno.server.local.controldata import PAGE_BYTES
from pgdyno.server.lsn import parse_lsn
from pgdyno.workload import Tables, WeightedScript, Workload

pytestmark = [pytest.mark.server, pytest.mark.alike]

TPCB = Workload("t", [WeightedScript("t", builtin_scripts()["tpcb-like"], "t", 1)], Tables.PGBENCH)
COLD = "pgdyno_drill.cold_written"
SETTINGS = {
    # Pages reach their files long before a checkpoint.
    "shared_buffers": "2MB",
    # kill -9 takes nothing from the operating system: it would only take time.
    "fsync": "off",
    # None comes between the damage and what sees it.
    "checkpoint_timeout": "1d",
    "autovacuum_naptime": "1d",
}


@dataclass
class Base:
    """A cluster with a load behind it, at rest; its files can be had again and again."""

    cluster: Cluster
    crashed: Crashed
    kept: Path

    def execute(self, *commands: str) -> None:
        """Behind the ledger's back."""
        self.cluster.start()
        with connect_plain(self.cluster.conninfo) as conn:
            for command in commands:
                conn.execute(command.encode())
        self.cluster.stop()

    def path_of(self, relation: str) -> Path:
        (path,) = self.column(f"select pg_relation_filepath('{relation}')")
        return self.cluster.data_dir / path

    def column(self, query: str) -> list[str]:
        self.cluster.start()
        with connect_plain(self.cluster.conninfo) as conn:
            rows = conn.execute(query.encode()).fetchall()
        self.cluster.stop()
        return [str(row[0]) for row in rows]

    def patch(self, relation: str, offset: int, data: bytes) -> None:
        """Overwrite bytes of a relation's file; a negative offset counts from its end."""
        with self.path_of(relation).open("r+b") as file:
            file.seek(offset, 0 if offset >= 0 else 2)
            file.write(data)

    def without_checksums(self) -> None:
        program = self.cluster.installation.binary("pg_checksums")
        done = run_as(server_account(), [program, "--disable", "-D", self.cluster.data_dir])
        assert done.returncode == 0, done.stderr

    def verify(self) -> Verified:
        return verify(self.crashed)


def load_until(
    cluster: Cluster, folder: Path, fault: Callable[[], object], known: Witnesses | None = None
) -> Crashed:
    """Load a cluster, let the fault strike, and say what was known before."""
    with connect(cluster.conninfo) as conn:
        witnesses = renew(conn, known) if known else prepare(conn, {"g": TPCB})
    label = time.time_ns()
    made = json.loads(load_config(cluster.conninfo, TPCB.scripts[0].text))
    made["acks"] = {"directory": str(folder / str(label)), "label": label}
    made["groups"][0]["witness"] = witness_statement(label, 0)
    load = Load(json.dumps(made))
    load.start()
    wait_until(lambda: all_have_worked(folder / str(label)), "each client has done some")
    fault()
    cut_ns = time.monotonic_ns()
    load.stop(1000)
    return Crashed(cluster, read_acks(folder / str(label)), cut_ns, witnesses)


def all_have_worked(acks: Path) -> bool:
    """Whether each client has some transactions behind it."""
    clients = Counter(read_acks(acks).records["client"].tolist())
    return len(clients) == 4 and min(clients.values()) >= 20 and clients.total() >= 150


def copy_files(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", source, to], check=True)


@pytest.fixture(scope="module", params=[18, 15])
def cluster(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Installation]
) -> Iterator[Cluster]:
    """A running cluster of the module's own with pgbench's tables."""
    installation = installation_of(request.param)
    with Cluster.create(installation, SETTINGS, checksums=True) as cluster:
        make_pgbench_tables(cluster.conninfo)
        yield cluster


@pytest.fixture(scope="module")
def at_rest(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A cluster that was loaded and shut down, with a copy of its files beside them, where both are
    in memory if there is room."""
    cluster.start()
    folder = tmp_path_factory.mktemp("at-rest")
    crashed = load_until(cluster, folder, cluster.stop)
    kept = cluster.directory / "kept"
    copy_files(cluster.data_dir, kept)
    return Base(cluster, crashed, kept)


@pytest.fixture
def base(at_rest: Base) -> Iterator[Base]:
    """The cluster as it was shut down, its log without what other tests did to it."""
    copy_files(at_rest.kept, at_rest.cluster.data_dir)
    os.truncate(at_rest.cluster.log_path, 0)
    yield at_rest
    at_rest.cluster.stop("immediate")


def failed(found: Verified) -> set[str]:
    return {check.name for check in found.checks if check.passed is False}


def assert_all_passed(found: Verified) -> None:
    assert (found.outcome, found.seen_by, found.server_said) == ("clean", "", "")
    assert all(check.passed for check in found.checks), found.checks
    assert found.ledger is not None
    assert found.ledger.acked > 10
    assert found.ledger.lost == found.ledger.inconsistent == 0


def test_a_clean_crash_is_clean_and_so_is_the_next(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start()
    first = load_until(cluster, tmp_path, cluster.kill)
    assert cluster.control_data().state == "in production"
    cluster.start()  # One that has recovered and was shut down all the same.
    cluster.stop()
    assert cluster.control_data().state == "shut down"
    assert_all_passed(verify(first))
    assert not cluster.running
    cluster.start()
    assert_all_passed(verify(load_until(cluster, tmp_path, cluster.kill, first.witnesses)))


def test_a_clean_shutdown_is_clean(base: Base) -> None:
    assert_all_passed(base.verify())


def test_half_a_page_at_the_end_of_a_file_is_no_damage(base: Base) -> None:
    """A full disk leaves one where a table was extended."""
    with base.path_of(COLD).open("ab") as file:
        file.write(bytes(PAGE_BYTES // 2))
    assert_all_passed(base.verify())


def test_a_zeroed_page_is_seen(base: Base) -> None:
    """The server takes it for a new page, and misses nothing."""
    base.patch(COLD, 3 * PAGE_BYTES, bytes(PAGE_BYTES))
    found = base.verify()
    assert (found.outcome, found.seen_by) == ("corrupt", "cold-tables")
    (cold,) = [check for check in found.checks if check.name == "cold-tables"]
    assert cold.passed is False


def test_a_flipped_byte_is_seen(base: Base) -> None:
    base.patch(COLD, 4 * PAGE_BYTES - 100, b"\x5a\xa5\x5a")
    found = base.verify()
    assert found.outcome == "corrupt"
    assert failed(found) == {"cold-tables", "readable", "amcheck", "checksums"}
    assert "invalid page" in found.server_said


def test_a_page_from_the_future_is_seen(base: Base) -> None:
    """Reading does not show it; writing and checkpoints fail at last."""
    base.without_checksums()
    base.patch(WITNESS_TABLE, -PAGE_BYTES, b"\x7f\0\0\0\x01\0\0\0")
    found = base.verify()
    assert (found.outcome, found.seen_by) == ("corrupt", "future-lsn")
    detail = next(check.detail for check in found.checks if check.name == "future-lsn")
    assert detail.startswith("1 of ")
    assert "at 7F/1" in detail
    assert "xlog flush request 7F/1 is not satisfied" in found.server_said


def test_a_lost_index_entry_is_seen(base: Base) -> None:
    base.execute(
        "create table t (id int primary key)",
        "insert into t select generate_series(1, 100)",
        "update pg_index set indisready = false where indexrelid = 't_pkey'::regclass",
        "insert into t values (101)",
        "update pg_index set indisready = true where indexrelid = 't_pkey'::regclass",
    )
    found = base.verify()
    assert (found.outcome, found.seen_by) == ("corrupt", "amcheck")
    assert failed(found) == {"amcheck"}
    (detail,) = (check.detail for check in found.checks if check.name == "amcheck")
    assert re.match(r'btree index "[\w.]+t_pkey": ERROR: +heap tuple', detail), detail


def test_a_lost_long_value_is_seen(base: Base) -> None:
    base.execute(
        "create table t (a text)",
        "alter table t alter a set storage external",
        "insert into t values (repeat('x', 10000))",
    )
    (toast,) = base.column("select reltoastrelid::regclass::text from pg_class where relname = 't'")
    base.patch(toast, 0, bytes(PAGE_BYTES))
    found = base.verify()
    assert found.outcome == "corrupt"
    assert {"readable"} <= failed(found) <= {"readable", "amcheck"}


def test_each_check_sees_what_it_is_there_for(base: Base) -> None:
    base.execute(
        "update pgbench_tellers set tbalance = tbalance + 1 where tid = 1",
        "delete from pgbench_accounts where aid = 77 and abalance = 0",
        "update pgbench_branches set bid = 2",
        "truncate pgdyno_drill.unlogged",
        "select setval('pgdyno_drill.numbers', 1)",
        "drop table pgdyno_drill.afterwards",
    )
    found = base.verify()
    assert (found.outcome, found.seen_by) == ("corrupt", "cold-tables")
    assert failed(found) == {"cold-tables", "zero-sum", "unlogged", "sequence", "writable"}


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (f"delete from {WITNESS_TABLE} where client = 1 and txn > 5", "lost"),
        (f"delete from {WITNESS_TABLE} where client = 1 and txn = 1", "corrupt"),
        (
            f"insert into {WITNESS_TABLE} select load, 0, 1, 1000000 from {WITNESS_TABLE} limit 1",
            "corrupt",
        ),
    ],
)
def test_the_ledger_tells_loss_from_damage(base: Base, command: str, outcome: str) -> None:
    base.execute(command)
    found = verify(base.crashed, deep=False)
    assert (found.outcome, found.seen_by) == (outcome, "ledger")
    assert failed(found) == {"ledger"}


def test_witnesses_twice_are_seen(base: Base) -> None:
    base.execute(
        f"alter table {WITNESS_TABLE} drop constraint pgdyno_witness_pkey",
        f"insert into {WITNESS_TABLE} select * from {WITNESS_TABLE} where client = 0 and txn < 3",
    )
    found = verify(base.crashed, deep=False)
    assert (found.outcome, found.seen_by) == ("corrupt", "ledger")
    assert found.ledger is not None
    assert (found.ledger.duplicates, found.ledger.lost) == (3, 0)


def test_wal_from_before_is_seen(cluster: Cluster, tmp_path: Path) -> None:
    """It mostly starts without a word: only pages from the future tell, and what is in them."""
    cluster.start()
    old = tmp_path / "pg_wal"

    def replace_wal() -> None:
        copy_files(cluster.data_dir / "pg_wal", old)
        with connect_plain(cluster.conninfo) as conn:
            row = conn.execute("select pg_current_wal_insert_lsn() + 65536").fetchone()
        assert row is not None
        beyond = parse_lsn(str(row[0]))
        wait_until(lambda: bool(scan_pages(cluster, beyond).beyond), "a page is written")
        cluster.kill()
        copy_files(old, cluster.data_dir / "pg_wal")

    found = verify(load_until(cluster, tmp_path, replace_wal))
    if found.outcome == "refused":  # Redo dirtied one of them, and could not write it back.
        assert "xlog flush request" in found.server_said
    else:
        assert found.outcome == "corrupt"
        assert "future-lsn" in failed(found)


def test_a_server_without_its_wal_refuses(base: Base) -> None:
    shutil.rmtree(base.cluster.data_dir / "pg_wal")
    copy_files(base.kept / "base/1", base.cluster.data_dir / "pg_wal")
    found = base.verify()
    assert (found.outcome, found.seen_by, found.ledger) == ("refused", "start", None)
    assert found.recovery_s is None
    assert "could not locate a valid checkpoint record" in found.server_said
    assert not base.cluster.running


def test_a_server_that_takes_no_connection_is_corrupt(base: Base) -> None:
    """The server runs but cannot read its roles; the verdict does not wait for that to change."""
    base.patch("pg_authid", 0, b"\x7f" * PAGE_BYTES)
    found = base.verify()
    assert (found.outcome, found.seen_by, found.ledger) == ("corrupt", "start", None)
    assert "FATAL" in found.server_said
    assert not base.cluster.running


def test_a_missing_file_is_seen(base: Base) -> None:
    base.execute("create table t (a int)")
    base.path_of("t").unlink()
    found = base.verify()
    assert found.outcome == "corrupt"
    assert "readable" in failed(found)
    assert "could not open file" in found.server_said


def test_a_ledger_without_witnesses_is_not_judged(base: Base) -> None:
    loads = tuple(replace(load, label=None) for load in base.crashed.acks.loads)
    acks = replace(base.crashed.acks, loads=loads)
    found = verify(replace(base.crashed, acks=acks), deep=False)
    assert (found.outcome, found.ledger) == ("clean", None)
    passed = {check.name: check.passed for check in found.checks}
    assert passed["ledger"] is None
    assert "amcheck" not in passed


def test_a_program_that_does_not_end_has_seen_nothing(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.drill.checks.amcheck.SECONDS_MAX", 0)
    found = base.verify()
    assert found.outcome == "clean", found.checks
    assert [check.name for check in found.checks if check.passed is None] == ["amcheck"]


def test_a_table_that_is_locked_is_not_damaged(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_checking._TIMEOUTS, "lock_timeout", "10ms")
    recovery = recover(base.cluster)
    readable = next(rule for rule in _checking.check_rules() if rule.name == "readable")
    context = _checking.CheckContext(base.crashed, recovery)
    with (
        psycopg.connect(**base.cluster.conninfo.kwargs()) as conn,
        contextlib.closing(context),
    ):
        conn.execute("lock pgbench_accounts")
        check = _checking.run_check(readable, context)
    assert (check.passed, check.detail) == (None, "canceling statement due to lock timeout")


def test_a_standby_is_looked_at_once_it_was_promoted(base: Base) -> None:
    """Before, what it has not yet replayed would count as lost."""
    signal = base.cluster.data_dir / "standby.signal"
    signal.touch()
    change_owner(signal, server_account())
    seen: list[bool] = []

    def promote() -> None:
        wait_until(has_promoted, "it accepts connections")

    def has_promoted() -> bool:
        with (
            contextlib.suppress(SetupError, psycopg.OperationalError),
            connect_plain(base.cluster.conninfo) as conn,
        ):
            seen.extend(row[0] for row in conn.execute("select pg_is_in_recovery()"))
            conn.execute("select pg_promote(false)")
            return True
        return False

    promoter = threading.Thread(target=promote)
    promoter.start()
    found = base.verify()
    promoter.join()
    assert seen == [True]
    assert found.outcome == "clean", found.checks
    assert found.ledger is not None
    assert found.ledger.lost == 0
    unlogged = next(check for check in found.checks if check.name == "unlogged")
    assert unlogged.detail.startswith("0 rows")
