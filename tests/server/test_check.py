"""``pgdyno check`` on real servers: what it finds in the load of others, and what it leaves alone.

The loads are sessions that wait for locks, so that nothing depends on the machine's speed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot
from psycopg.errors import ReadOnlySqlTransaction
from severe_findings import severe

from patience import wait_until
from pgdyno.check import _write_probe
from pgdyno.check._reach import Where, limited, session
from pgdyno.check._result import _of_light_load, _severity, proofs_of
from pgdyno.check.checking import CheckRequest, check
from pgdyno.check.watching import Away, Watch, watch
from pgdyno.conduct import Silent
from pgdyno.conduct.repeating import fields_of_run
from pgdyno.errors import SetupError, ThresholdError, UsageError
from pgdyno.facts.sight import proposed
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding, Proposal
from pgdyno.remedy import Circumstances
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.terminal.check import WatchView
from pgdyno.report.views.check import gain_words
from pgdyno.report.words import prose
from pgdyno.report.words.findings import finding_name
from pgdyno.results import recorded_json
from pgdyno.results.check import CheckResult
from pgdyno.server import Cluster
from pgdyno.server.connecting.connect import _refuse_old
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Change
from pgdyno.spec.standby import StandbySpec
from pooler_fixtures import PgBouncer

pytestmark = pytest.mark.server

SECONDS = 2.5


def connected(cluster: Cluster, **values: str) -> psycopg.Connection:
    kwargs = {**cluster.conninfo.kwargs(), "application_name": "shop", **values}
    return psycopg.connect(**kwargs, autocommit=True)


def checked(
    cluster: Cluster, path: Path | None = None, *, write_probe: bool = False, **values: str
) -> CheckResult:
    conninfo = psycopg.conninfo.make_conninfo(
        "", **{**cluster.conninfo.kwargs(), "application_name": None, **values}
    )
    return check(CheckRequest(Where(conninfo), SECONDS, path, write_probe), Silent())


@contextmanager
def waiting_for(cluster: Cluster, table: str, count: int) -> Iterator[None]:
    """Sessions that wait for a table that a session holds, which is idle in a transaction."""
    with ExitStack() as stack:
        holder = stack.enter_context(connected(cluster))
        holder.execute(f"begin; lock table {table}".encode())
        waiters = [stack.enter_context(connected(cluster)) for _ in range(count)]
        threads = [
            threading.Thread(target=each.execute, args=(f"update {table} set n = n".encode(),))
            for each in waiters
        ]
        for thread in threads:
            thread.start()
        waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
        wait_until(lambda: holder.execute(waiting, (table,)).fetchone() == (count,), "all wait")
        try:
            yield
        finally:
            holder.execute("rollback")
            for thread in threads:
                thread.join()


@pytest.fixture
def table(pg: Cluster) -> Iterator[str]:
    with connected(pg) as conn:
        conn.execute("create table checked (n int); insert into checked values (1)")
        yield "checked"
        conn.execute("drop table checked")


def test_sessions_that_wait_for_a_lock_are_the_limit(
    pg: Cluster, table: str, tmp_path: Path
) -> None:
    path = tmp_path / "check.db"
    with waiting_for(pg, table, 4):
        result = checked(pg, path)
    found = {each.id: each for each in result.findings}
    assert found["idle-in-transaction"].severity == "limit"
    assert table in found["idle-in-transaction"].sentence + str(found)
    assert result.findings[0].sentence in result.verdict
    assert result.load.at_work == pytest.approx(5, rel=0.1), "four wait, and one is idle"
    assert result.load.waits[0].event == "Lock:relation"
    assert f"update {table} set n = n" in result.load.statements[0].statement
    assert any("clients were not observed" in each.why for each in result.not_checked)
    with RunFile(path) as run:
        assert recorded_json(run) == result.to_json()


@pytest.mark.parametrize(
    ("rank", "share", "status"), [(None, 0.3, "cleared"), (1, 0.3, "found"), (None, 0.0, "found")]
)
def test_parts_of_a_light_load_s_time_are_no_findings(
    rank: int | None, share: float, status: str
) -> None:
    finding = Finding(
        id="commit-flush", status="found", sentence="30 % is spent", share=share, rank=rank
    )
    assert _of_light_load(finding).status == status


@pytest.mark.parametrize(
    ("light", "finding", "severity"),
    [
        (False, {"severity": "limit", "rank": 1}, "limit"),
        (True, {"severity": "limit", "rank": 1}, "costs"),
        (True, {"severity": "will fail", "rank": 1}, "will fail"),
        (True, {"severity": "minor", "rank": None}, "minor"),
        (True, {"severity": "limit", "rank": None}, "limit"),  # of a rule
    ],
)
def test_a_light_load_has_no_limit(light: bool, finding: dict[str, object], severity: str) -> None:
    found = Finding.model_validate({"id": "stall", "status": "found", "sentence": ""} | finding)
    assert _severity(found, light=light) == severity


@pytest.mark.parametrize("version", [18, 15])
def test_a_server_without_load_has_no_limit(
    new_cluster: Callable[..., Cluster], version: int
) -> None:
    """A new one: transactions of tests before are counted late, on 15 by the statistics
    collector."""
    idle = new_cluster(version)
    with connected(idle) as resting:
        resting.execute("select 1")
        result = checked(idle)
    assert severe(result) == set()
    assert result.load.transactions_s is not None
    transactions = result.load.transactions_s * result.seconds
    assert transactions < result.load.samplings / 2, "pgdyno's own transactions do not count"
    assert result.run_file is None


@contextmanager
def role(cluster: Cluster, name: str, grants: str = "") -> Iterator[str]:
    with connected(cluster) as conn:
        conn.execute(f"create role {name} login; {grants}".encode())
        try:
            yield name
        finally:
            conn.execute(f"drop role {name}".encode())


def test_a_role_that_may_only_connect_judges_no_wait_and_says_what_it_needs(pg: Cluster) -> None:
    with connected(pg), role(pg, "only_connects") as user:
        result = checked(pg, user=user)
    assert result.load.at_work is None
    assert not result.load.waits
    judged = {each.id for each in (*result.findings, *result.cleared)}
    assert not judged & {"commit-flush", "hot-row", "relation-lock", "idle-in-transaction"}
    unseen = [each for each in result.not_checked if "commit-flush" in each.checks]
    assert [each.allow for each in unseen] == ["GRANT pg_monitor TO only_connects"]
    assert any("pg_stat_statements is not" in each.why for each in result.not_checked)


def test_a_role_with_pg_monitor_sees_what_a_superuser_sees(pg: Cluster, table: str) -> None:
    with role(pg, "watches", "grant pg_monitor to watches") as user, waiting_for(pg, table, 3):
        result = checked(pg, user=user)
    assert "idle-in-transaction" in {each.id for each in result.findings}
    assert result.load.at_work == pytest.approx(4, rel=0.1)


def test_nothing_is_written_on_the_server(pg: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    databases = "select array_agg(datname::text order by 1) from pg_database"
    with connected(pg) as conn:
        before = conn.execute(databases.encode()).fetchone()
        checked(pg)
        assert conn.execute(databases.encode()).fetchone() == before
        with session(limited(pg.conninfo)) as ours, pytest.raises(ReadOnlySqlTransaction):
            ours.execute("create table public.never (n int)")


def test_a_standby_is_checked_too(new_cluster: Callable[..., Cluster]) -> None:
    receivers = Receivers(new_cluster(fsync="off"))
    try:
        receivers.arrange(StandbySpec(count=1))
        result = checked(receivers.standbys[0].cluster)
    finally:
        receivers.close()
    assert result.server.in_recovery
    assert result.load.transactions_s is not None
    assert severe(result) == set()


def test_behind_a_pooler_the_server_itself_is_checked(
    pg15: Cluster, pgbouncer: Callable[..., PgBouncer]
) -> None:
    pooler = pgbouncer(pg15, pool_mode="transaction")
    conninfo = psycopg.conninfo.make_conninfo("", **pooler.conninfo.kwargs())
    result = check(CheckRequest(Where(conninfo), SECONDS, None), Silent())
    assert str(pooler.port) not in result.server.uri
    assert result.load.at_work is not None


def test_what_is_not_tracked_is_named(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(15, track_activities="off", track_io_timing="off")
    result = checked(cluster)
    allow = {each.subject: each.allow for each in result.not_checked}
    assert "track_activities = on" in allow["track_activities"]
    assert result.load.at_work is None
    assert "commit-flush" not in {each.id for each in result.cleared}


def test_a_server_that_does_not_answer_is_named(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster()
    with connected(cluster) as conn:
        conn.execute("begin; lock table pg_catalog.pg_collation")
        with pytest.raises(SetupError) as problem:
            checked(cluster)
    assert problem.value.code == "no-answer"
    assert problem.value.hint == snapshot(
        "a session has locked a system catalog: find it in pg_locks with psql, and end it"
    )


def test_a_server_without_a_free_connection_fails(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18, max_connections="8", max_wal_senders="0")
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connected(cluster))
        with pytest.raises(ThresholdError) as problem:
            checked(cluster)
    assert problem.value.code == "connections-exhausted"


@pytest.fixture
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_write_probe, "COMMITS_MAX", 20)


def tables_left(cluster: Cluster) -> list[tuple[str]]:
    with connected(cluster) as conn:
        return conn.execute("select relname from pg_class where relname ~ 'write_probe'").fetchall()


@pytest.mark.usefixtures("few_commits")
def test_a_write_probe_leaves_nothing_and_its_parts_are_shown(pg: Cluster, tmp_path: Path) -> None:
    result = checked(pg, tmp_path / "check.db", write_probe=True)
    assert result.write_probe is not None
    assert result.write_probe.commits == 20
    assert [each.part for each in result.write_probe.parts] == ["network", "server", "flush"]
    assert "slow-commits" in {each.id for each in (*result.findings, *result.cleared)}
    assert tables_left(pg) == []
    with RunFile(tmp_path / "check.db") as run:
        assert "20 inserts of one client" in render(run)
        assert "20 inserts of one client" in "\n".join(map(str, summary_lines(run, 120)))
    unasked = {each.allow for each in checked(pg).not_checked}
    assert "pgdyno check --write-probe" in unasked


@pytest.mark.usefixtures("few_commits")
def test_a_write_probe_that_may_not_write_says_why(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18, wal_level="logical")

    def why(**values: str) -> tuple[str, str]:
        (entry,) = [
            each
            for each in checked(cluster, write_probe=True, **values).not_checked
            if "slow-commits" in each.checks
        ]
        assert tables_left(cluster) == []
        return entry.why, entry.allow

    with role(cluster, "no_table") as user:
        denied = why(user=user)
    assert denied == (
        "permission denied for schema public",
        "GRANT CREATE ON SCHEMA public TO no_table",
    )
    with connected(cluster) as conn:
        conn.execute("create publication everything for all tables")
    assert "publication everything" in why()[0]


def test_the_page_and_the_summary_of_a_check_say_the_same(pg18: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "check.db"
    result = checked(pg18, path)
    with RunFile(path) as run:
        page = render(run)
        summary = "\n".join(line.text for line in summary_lines(run, 200))
    assert f"{len(result.cleared)} checks: " in summary
    for each in result.cleared:
        assert prose.capital(finding_name(each.id)) in page
    for reason in {each.why for each in result.not_checked}:
        assert reason[:40] in summary
    assert "Not checked, and therefore not passed" in page
    assert "pgdyno check" in page
    with RunFile(path) as run:
        rows = [*result_rows(run)]
    assert len({frozenset(row) for row in rows}) == 1, "the same columns in every row"
    assert [row["id"] for row in rows if row["status"] == "found"] == [
        each.id for each in result.findings
    ]
    assert {row["status"] for row in rows} >= {"cleared", "not checked"}
    with pytest.raises(UsageError, match="no load of its own"):
        fields_of_run(path)


def result_of(results: Iterator[CheckResult | Away]) -> CheckResult:
    result = next(results)
    assert isinstance(result, CheckResult)
    return result


def test_a_watch_shows_findings_as_they_come_and_go(pg18: Cluster) -> None:
    conninfo = psycopg.conninfo.make_conninfo("", **pg18.conninfo.kwargs())
    results = watch(Watch(Where(conninfo), 2.0), Silent())
    view = WatchView()
    with connected(pg18) as conn:
        conn.execute("create table watched (n int); insert into watched values (1)")
        try:
            with waiting_for(pg18, "watched", 2):
                view.update(result_of(results))
            came = [line.text for line in view.lines(120)]
            gone = [line.text for line in view.update(result_of(results))]
        finally:
            results.close()
            conn.execute("drop table watched")
    assert any(line.startswith("Lock:relation") and "█" in line for line in came)
    assert any("idle in transaction" in line and "since" in line for line in came)
    assert "gone: idle in transaction" in gone
    assert "tps" in view.summary().text


def test_a_watch_waits_for_a_server_that_is_away(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18)
    conninfo = psycopg.conninfo.make_conninfo("", **cluster.conninfo.kwargs())
    results = watch(Watch(Where(conninfo), 2.0), Silent())
    view = WatchView()
    try:
        seen = next(results)
        assert isinstance(seen, CheckResult)
        view.update(seen)
        cluster.kill()
        away = next(results)
        assert isinstance(away, Away)
        (line,) = view.miss(away.why)
        assert line.text.startswith("not seen since")
        assert view.miss(away.why) == []
        assert any("not seen since" in line.text for line in view.lines(120))
        cluster.start()
        back = next(each for each in results if isinstance(each, CheckResult))
        view.update(back)
        assert not any("not seen since" in line.text for line in view.lines(120))
    finally:
        results.close()


def test_a_server_elsewhere_is_judged_by_what_it_shows(
    pg: Cluster, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("pgdyno.server.connecting.facts", "pgdyno.server.connecting._pooler"):
        monkeypatch.setattr(f"{module}.postmaster_here", lambda *_: None)
    monkeypatch.setattr("pgdyno.probe._server_sampler.find_postmaster", lambda *_: None)
    with waiting_for(pg, table, 4):
        result = checked(pg)
    assert result.load.cores is None
    assert "idle-in-transaction" in {each.id for each in result.findings}
    assert result.findings[0].sentence in result.verdict
    assert any("--cores" in each.allow for each in result.not_checked)
    proofs = [proof for each in result.findings for proof in each.prove]
    assert not any(proof.predicted_ratio for proof in proofs), "gains depend on the cores"
    assert "server-cpu" not in {each.id for each in result.cleared}


@pytest.mark.parametrize(("number", "version"), [(90624, "9.6"), (130011, "13")])
def test_a_server_that_is_too_old_is_refused(number: int, version: str) -> None:
    with pytest.raises(SetupError, match=f"PostgreSQL {version} is too old") as problem:
        _refuse_old(number)
    assert "14 and newer" in str(problem.value.hint)


def test_a_proposed_change_comes_with_the_command_that_proves_it() -> None:
    change = Change(settings={"commit_delay": "100"}, indexes={"public.t": "n"})
    proposal = Proposal(remedy_id="commit-delay", change=change, predicted_ratio=1.3, why="why")
    finding = Finding(id="commit-flush", status="found", sentence="slow", proposals=(proposal,))
    (proof,) = proofs_of(finding, "postgresql://db/shop", Circumstances(), {}, predicts=False)
    assert proof.command == (
        "pgdyno compare postgresql://db/shop -f SCRIPT.sql --set commit_delay=100"
        " --sql 'create index pgdyno_t_n on public.t (n)'"
        " --undo-sql 'drop index public.pgdyno_t_n' --apply"
    )
    assert proof.predicted_ratio is None
    only = proposal.model_copy(update={"change": Change(settings={"commit_delay": "100"})})
    (proof,) = proofs_of(
        finding.model_copy(update={"proposals": (only,)}),
        "postgresql://db/shop",
        Circumstances(),
        {},
        predicts=True,
    )
    assert proof.command.startswith("pgdyno compare postgresql://db/shop -f SCRIPT.sql --set")
    assert proof.command.endswith("--apply")
    assert proof.predicted_ratio == 1.3
    clients = proposal.model_copy(update={"change": Change(clients={"sessions": 4})})
    assert not proofs_of(
        finding.model_copy(update={"proposals": (clients,)}),
        "",
        Circumstances(),
        {},
        predicts=True,
    )


@pytest.mark.parametrize("guards", [True, False])
def test_a_change_that_no_model_predicts_says_whether_it_prevents_a_fault(guards: bool) -> None:
    proposal = proposed("reset-setting", "why", {"autovacuum": "on"}, guards=guards)
    finding = Finding(id="no-autovacuum", status="found", sentence="off", proposals=(proposal,))
    (proof,) = proofs_of(finding, "postgresql://db/shop", Circumstances(), {}, predicts=True)
    assert (proof.guards, proof.predicted_ratio) == (guards, None)
    assert gain_words(proof) == ("prevents a fault" if guards else "gain unknown")
