"""``pgdyno check`` on servers with much in them: sessions, partitions, row level security and login
event triggers; and what it says of clients that do not read their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from severe_findings import severe

from patience import wait_until
from pgdyno.check import _write_probe
from pgdyno.check._reach import Where
from pgdyno.check.checking import CheckRequest, check
from pgdyno.conduct import Silent
from pgdyno.results.check import CheckResult
from pgdyno.server import Cluster

pytestmark = pytest.mark.server

SESSIONS = 250
PARTITIONS = 1_000
_PARTITIONED = f"""
create table part (id bigint, a int) partition by range (id);
do $$
begin
    for i in 0..{PARTITIONS - 1} loop
        execute format('create table part%s partition of part for values from (%s) to (%s)',
                       i, i * 10, i * 10 + 10);
    end loop;
end $$;
create index on part (id);
create index on part (a);
insert into part select i, i from generate_series(0, {PARTITIONS * 10 - 1}) i;
"""
_GUARDED = """
create table guarded (id int, owner name);
insert into guarded select i, 'nobody' from generate_series(1, 1000) i;
alter table guarded enable row level security, force row level security;
create policy own on guarded using (owner = current_user);
"""
_LOGINS = """
create table public.login (role name, at timestamptz default now());
grant insert on public.login to public;
create function public.seen() returns event_trigger language plpgsql as
    $$ begin insert into public.login (role) values (session_user); end $$;
create event trigger seen on login execute function public.seen();
alter event trigger seen enable always;
"""


def checked(cluster: Cluster, *, write_probe: bool = False, **values: str) -> CheckResult:
    conninfo = psycopg.conninfo.make_conninfo(
        "", **{**cluster.conninfo.kwargs(), "application_name": None, **values}
    )
    return check(CheckRequest(Where(conninfo), 1.5, None, write_probe), Silent())


def connected(cluster: Cluster) -> psycopg.Connection:
    kwargs = {**cluster.conninfo.kwargs(), "application_name": "shop"}
    return psycopg.connect(**kwargs, autocommit=True)


@pytest.fixture
def large(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A server with many idle sessions and a table of many partitions."""
    settings = {"max_connections": str(2 * SESSIONS), "max_locks_per_transaction": "128"}
    cluster = new_cluster(18, **settings)
    with ExitStack() as stack:
        sessions = [stack.enter_context(connected(cluster)) for _ in range(SESSIONS)]
        sessions[0].execute(_PARTITIONED.encode())
        sessions[0].execute(_GUARDED.encode())
        yield cluster


def test_many_idle_sessions_and_partitions_are_all_looked_at(large: Cluster) -> None:
    result = checked(large)
    assert result.load is not None
    assert result.load.sessions >= SESSIONS
    assert not [each for each in result.not_checked if "longer than" in each.why]
    assert severe(result) == set()


def test_a_login_trigger_that_writes_refuses_no_session_of_a_check(
    new_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_write_probe, "COMMITS_MAX", 20)
    cluster = new_cluster(18)
    with connected(cluster) as conn:
        conn.execute(_LOGINS.encode())
        conn.execute("create role watching login; grant pg_monitor to watching")
        result = checked(cluster, write_probe=True)
        assert result.write_probe is not None
        asked = "select count(*) from public.login where role = 'watching'"
        assert checked(cluster, user="watching").load is not None
        logins = conn.execute(asked).fetchone()
    assert logins is not None
    assert 0 < logins[0] <= 20


def test_clients_that_do_not_take_their_results_are_the_limit(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(18)
    sending = "select count(*) from pg_stat_activity where wait_event = 'ClientWrite'"
    with ExitStack() as stack:
        for _ in range(2):
            conn = stack.enter_context(connected(cluster))
            stack.callback(conn.pgconn.finish)
            conn.pgconn.send_query(b"select repeat('x', 1000) from generate_series(1, 1000000)")
            conn.pgconn.flush()
        watching = stack.enter_context(connected(cluster))
        wait_until(lambda: watching.execute(sending).fetchone() == (2,), "both wait to send")
        result = checked(cluster)
    found = {each.id: each for each in result.findings}
    assert found["large-results"].severity == "limit"
    # A disk that neighbours fill is told before it.
    limits = [each for each in result.findings if each.severity != "will fail"]
    assert limits[0] == found["large-results"]
    unjudged = {name for each in result.not_checked if each.allow for name in each.checks}
    assert {"stall", "checkpoint-dips", "round-trips"} <= unjudged
