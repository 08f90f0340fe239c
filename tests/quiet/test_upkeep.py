"""What holds back vacuum and WAL, injected into real servers: named, and its look-alikes not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding

pytestmark = pytest.mark.server
Findings = Mapping[str, Finding]

# Three samples in each third of it, and twice the time for which a vacuum must be overdue.
HOLD = "10s"
# For what needs no time to show.
SHORT = "4s"
KEEPERS = ("xmin-pinned", "slot-holds-wal", "archiver-behind", "prepared-transactions")
OLD_SNAPSHOT = "begin isolation level repeatable read; select 1; select pg_sleep(600); commit"
WRITES_BEFORE = "create table orphans (n int); begin; insert into orphans values (1);"
TABLE = """
create table churned (id int primary key, n int, filler text);
insert into churned select id, 0, repeat('x', 80) from generate_series(1, 100000) id;
analyze churned;
"""
# Fast and slow machines make about as many rows dead. Each client has rows of its own, so that
# nobody waits for a lock.
CHURN = """
\\set first :client_id * 25000 + random(1, 24900)
update churned set n = n + 1 where id between :first and :first + 99;
\\sleep 100 ms
"""


@pytest.fixture
def carry(tmp_path: Path, installation_of: Callable[[int], object]) -> Callable[..., Findings]:
    """Carries out many updates of one table while something is wrong."""

    def run(
        version: int, *statements: str, hold: str = HOLD, beside: str = "", **settings: str
    ) -> Findings:
        """``beside``: the script of a client beside the others."""
        installation_of(version)  # skips the test where this machine has none
        setup, script = tmp_path / "setup.sql", tmp_path / "churn.sql"
        setup.write_text(TABLE)
        script.write_text(CHURN)
        return carried_out(
            tmp_path,
            setup=setup,
            script=script,
            # What the events do is there before the measurement begins.
            ramp="2s",
            hold=hold,
            version=version,
            settings=settings,
            events=[{"at": "0s", "sql": sql} for sql in statements],
            clients=4,
            groups=_with_another(tmp_path / "beside.sql", beside) if beside else None,
        )

    return run


def _with_another(path: Path, script: str) -> list[dict[str, Any]]:
    path.write_text(script)
    return [
        {"name": "web", "count": 4},
        {"name": "beside", "count": 1, "script": [{"file": str(path)}]},
    ]


def found_of(findings: Findings) -> set[str]:
    return {name for name in KEEPERS if findings[name].status == "found"}


@pytest.mark.parametrize("version", [18, 15])
def test_an_old_snapshot(carry: Callable[..., Findings], version: int) -> None:
    findings = carry(version, OLD_SNAPSHOT)
    assert found_of(findings) == {"xmin-pinned"}, status(findings)
    assert numbers(findings, "xmin-pinned")["held without a break for"] > 0


@pytest.mark.parametrize("version", [18, 15])
def test_a_prepared_transaction_is_named_and_not_those_that_wait_for_it(
    carry: Callable[..., Findings], version: int
) -> None:
    sql = f"{WRITES_BEFORE} prepare transaction 'order 66'"
    findings = carry(version, sql, max_prepared_transactions="5")
    assert found_of(findings) == {"xmin-pinned", "prepared-transactions"}, status(findings)
    assert '"order 66"' in findings["xmin-pinned"].sentence


@pytest.mark.parametrize("version", [18, 15])
def test_a_slot_without_a_consumer(carry: Callable[..., Findings], version: int) -> None:
    sql = "select pg_create_logical_replication_slot('lost', 'pgoutput')"
    findings = carry(version, sql, hold=SHORT, wal_level="logical")
    assert found_of(findings) == {"slot-holds-wal"}, status(findings)
    assert any('"lost"' in name for name in numbers(findings, "slot-holds-wal"))


@pytest.mark.parametrize("version", [18, 15])
def test_an_archiver_that_fails(carry: Callable[..., Findings], version: int) -> None:
    switch = "select pg_switch_wal()"
    findings = carry(version, switch, hold=SHORT, archive_mode="on", archive_command="false")
    assert found_of(findings) == {"archiver-behind"}, status(findings)


def test_a_healthy_server_with_an_archiver_counts_transaction_ids(
    carry: Callable[..., Findings],
) -> None:
    findings = carry(18, "select pg_switch_wal()", archive_mode="on", archive_command="true")
    assert found_of(findings) == set(), status(findings)
    unchecked = {name: finding for name, finding in findings.items() if name in KEEPERS}
    assert {finding.status for finding in unchecked.values()} == {"cleared"}
    assert findings["transaction-ids"].status == "cleared"
    seen = numbers(findings, "transaction-ids")
    assert seen["transaction IDs assigned"] > 0
    assert seen["oldest transaction ID, stop in"] > 86400


def numbers(findings: Findings, name: str) -> dict[str, Any]:
    return {each.name: each.value for each in findings[name].evidence}


VACUUM = ("autovacuum-slow", "autovacuum-threshold", "autovacuum-off")
# So low a threshold that tables are due however few transactions a busy machine does.
OFTEN = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "1",
}
THROTTLED = {"autovacuum_vacuum_cost_delay": "100ms", "autovacuum_vacuum_cost_limit": "1"}


@pytest.mark.parametrize("version", [18, 15])
def test_a_vacuum_that_is_throttled(carry: Callable[..., Findings], version: int) -> None:
    findings = carry(version, **OFTEN, **THROTTLED)
    finding = findings["autovacuum-slow"]
    assert finding.status == "found", status(findings)
    assert numbers(findings, "autovacuum-slow")["workers asleep for the cost delay"] > 0
    assert findings["xmin-pinned"].status == "cleared"


def test_healthy_churn(carry: Callable[..., Findings]) -> None:
    """With workers that never sleep and are never all at work, also on a busy machine."""
    free = {"autovacuum_vacuum_cost_delay": "0", "autovacuum_max_workers": "8"}
    findings = carry(18, **OFTEN | free)
    assert {findings[name].status for name in VACUUM} == {"cleared"}, status(findings)


@pytest.mark.parametrize("version", [18, 15])
def test_a_threshold_out_of_reach(carry: Callable[..., Findings], version: int) -> None:
    """Version 18 has a limit of its own, which takes a day as well."""
    findings = carry(version, autovacuum_vacuum_threshold="2000000000")
    assert findings["autovacuum-threshold"].status == "found", status(findings)
    seen = numbers(findings, "autovacuum-threshold")["threshold of autovacuum"]
    assert seen == 100_000_000 if version >= 18 else seen > 2_000_000_000


@pytest.mark.parametrize("version", [18, 15])
def test_pages_that_sessions_write_themselves(carry: Callable[..., Findings], version: int) -> None:
    small = {"shared_buffers": "1MB", "bgwriter_lru_maxpages": "0", "synchronous_commit": "off"}
    seen = numbers(carry(version, hold=SHORT, **small), "backend-writes")
    assert seen["pages written by client sessions / all"] > 0.3


def test_a_table_without_autovacuum(carry: Callable[..., Findings]) -> None:
    findings = carry(18, "alter table churned set (autovacuum_enabled = off)")
    finding = findings["autovacuum-off"]
    assert finding.status == "found", status(findings)
    assert "public.churned" in finding.sentence


HOLDS_ON = "begin; lock table churned in {} mode; select pg_sleep(600); commit"
LOCKS_NOW_AND_THEN = """
begin;
lock table churned in share row exclusive mode;
commit;
\\sleep 400 ms
"""
KEPT_OUT = "samples in which others had it locked against autovacuum"


@pytest.mark.parametrize("version", [18, 15])
def test_autovacuum_that_never_gets_its_lock(carry: Callable[..., Findings], version: int) -> None:
    findings = carry(version, HOLDS_ON.format("share update exclusive"), **OFTEN)
    finding = findings["autovacuum-blocked"]
    assert finding.status == "found", status(findings)
    seen = numbers(findings, "autovacuum-blocked")
    assert seen["table that was due for the longest time"] == "public.churned"
    assert seen["autovacuums of it that were seen"] == 0
    assert seen[KEPT_OUT] > 0.5
    assert seen["mode held or wanted"] == "ShareUpdateExclusiveLock"
    assert findings["autovacuum-slow"].status == "cleared", status(findings)


def test_a_lock_beside_which_autovacuum_works_keeps_it_from_nothing(
    carry: Callable[..., Findings],
) -> None:
    free = {"autovacuum_vacuum_cost_delay": "0", "autovacuum_max_workers": "8"}
    findings = carry(18, HOLDS_ON.format("row exclusive"), **OFTEN | free)
    assert findings["autovacuum-blocked"].status == "cleared", status(findings)


@pytest.mark.parametrize("version", [18, 15])
def test_autovacuum_that_is_cancelled_again_and_again(
    carry: Callable[..., Findings], version: int
) -> None:
    timeout = {"deadlock_timeout": "500ms"}  # the wait is looked at several times
    findings = carry(version, beside=LOCKS_NOW_AND_THEN, **OFTEN | THROTTLED | timeout)
    finding = findings["autovacuum-blocked"]
    assert finding.status == "found", status(findings)
    seen = numbers(findings, "autovacuum-blocked")
    assert seen["of these ended"] > 0
    assert seen["mode held or wanted"] == "ShareRowExclusiveLock"
    assert seen["statement"] == "lock table churned in share row exclusive mode"


def test_autovacuum_that_is_slow_and_not_cancelled(carry: Callable[..., Findings]) -> None:
    findings = carry(18, **OFTEN, **THROTTLED)
    assert findings["autovacuum-blocked"].status == "cleared", status(findings)


TEMPORARY = """
begin;
create temporary table seen (a int, b int, c text) on commit drop;
insert into seen values (1, 2, 'x');
commit;
\\sleep 5 ms
"""
SLOT = "select pg_create_logical_replication_slot('lost', 'pgoutput')"


@pytest.mark.parametrize("version", [18, 15])
def test_catalogues_whose_dead_rows_a_slot_keeps(
    carry: Callable[..., Findings], version: int
) -> None:
    findings = carry(version, SLOT, beside=TEMPORARY, wal_level="logical")
    finding = findings["catalogue-bloat"]
    assert finding.status == "found", status(findings)
    assert '"lost"' in numbers(findings, "catalogue-bloat")["holder of an old xmin"]


def test_catalogues_whose_dead_rows_nobody_keeps(carry: Callable[..., Findings]) -> None:
    findings = carry(18, beside=TEMPORARY)
    assert findings["catalogue-bloat"].status == "cleared", status(findings)
