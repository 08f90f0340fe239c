"""Logging in to real servers: trust, password, MD5, SCRAM; and the server's words if it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config
from inline_snapshot import snapshot

from patience import wait_until
from pgdyno._engine import EngineError, Load
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

METHODS = ("trust", "password", "md5", "scram-sha-256")
# SASLprep maps the fullwidth digit to a plain one; the server did the same when it stored it.
PASSWORD = "p\u00e4ss '\\ \uff11"


@pytest.fixture(scope="module", params=[15, 18])
def cluster(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Any]
) -> Iterator[Cluster]:
    """A server with one role for each way to log in."""
    # A session's server process may end long after its client has the next one.
    settings = {"max_connections": "400"}
    with Cluster.create(installation_of(request.param), settings) as made:
        with psycopg.connect(**made.conninfo.kwargs(), autocommit=True) as connection:
            for method in METHODS:
                stored = "md5" if method == "md5" else "scram-sha-256"
                connection.execute(f"set password_encryption = '{stored}'")
                quoted = PASSWORD.replace("'", "''")
                connection.execute(f"create role \"{method}\" login password '{quoted}'")
            row = connection.execute("show hba_file").fetchone()
            assert row is not None
            hba = Path(row[0])
            rules = "".join(
                f'local all "{m}" {m}\nhost all "{m}" 127.0.0.1/32 {m}\n' for m in METHODS
            )
            rules += "local all refused reject\n"
            hba.write_text(rules + hba.read_text())
            connection.execute("create role refused login")
            connection.execute("select pg_reload_conf()")
            # The postmaster reads it some time later; until then trust lets everybody in.
            wait_until_refused(made)
        yield made


def wait_until_refused(cluster: Cluster) -> None:
    def refused() -> bool:
        try:
            psycopg.connect(**{**cluster.conninfo.kwargs(), "user": "refused"}).close()
        except psycopg.OperationalError:
            return True
        return False

    wait_until(refused, "the server follows its new pg_hba.conf")


def target(cluster: Cluster, **changes: Any) -> str:
    load = json.loads(config(cluster.conninfo, "select 1;"))
    for key in changes.keys() & {"host", "port"}:
        load["target"]["hosts"][0][key] = changes.pop(key)
    load["target"].update(changes)
    return json.dumps(load)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("over", ["socket", "tcp"])
def test_every_way_to_log_in_works(cluster: Cluster, method: str, over: str) -> None:
    where = {} if over == "socket" else {"host": "127.0.0.1", "port": cluster.conninfo_tcp.port}
    with Run(target(cluster, user=method, password=PASSWORD, **where)) as run:
        run.wait_for(lambda run: run.total["connects"] == 4)
        run.wait_for_more("done", 20)
    run.assert_balanced()
    assert not run.errors


@pytest.mark.parametrize("method", ["password", "md5", "scram-sha-256"])
def test_a_wrong_password_is_told_in_the_servers_words(cluster: Cluster, method: str) -> None:
    with pytest.raises(EngineError) as caught:
        Load(target(cluster, user=method, password="wrong")).start()
    assert caught.value.code == "authentication-failed"
    assert caught.value.message == f'password authentication failed for user "{method}"'
    assert caught.value.hint is not None


def test_many_log_in_at_once_and_a_changed_password_is_told(cluster: Cluster) -> None:
    load = json.loads(target(cluster, user="scram-sha-256", password=PASSWORD))
    load["groups"][0] |= {"clients": 90, "connection": {"reconnect_every": 1}}
    load |= {"backoff_ms_min": 1, "backoff_ms_max": 20}
    with (
        Run(json.dumps(load)) as run,
        psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection,
    ):
        run.wait_for(lambda run: run.total["connects"] > 300)
        assert not run.errors
        try:
            # Another salt, of which no keys are kept, and other keys.
            connection.execute("alter role \"scram-sha-256\" password 'other'")
            run.wait_for(lambda run: bool(run.errors))
        finally:
            quoted = PASSWORD.replace("'", "''")
            connection.execute(f"alter role \"scram-sha-256\" password '{quoted}'")
        run.wait_for_more("done", 100)
    run.assert_balanced()
    rows = [row for interval in run.intervals for row in interval["errors"]]
    assert {row["sqlstate"] for row in rows} == {"28P01"}
    told = 'password authentication failed for user "scram-sha-256"'
    assert {row["message"] for row in rows} == {told}


@pytest.mark.parametrize("password", [None, ""])
def test_a_missing_password_is_told(cluster: Cluster, password: str | None) -> None:
    with pytest.raises(EngineError) as caught:
        Load(target(cluster, user="scram-sha-256", password=password)).start()
    assert caught.value.code == "authentication-failed"
    why = caught.value.message.rpartition(": ")[2]
    assert why == snapshot("the server asks for a password and none was given")


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"database": "nowhere"}, "database-missing", 'database "nowhere" does not exist'),
        ({"user": "refused"}, "authentication-failed", 'for host "[local]", user "refused"'),
        ({"port": 1}, "connection-failed", "cannot connect to the socket "),
        ({"host": "127.0.0.1", "port": 1}, "connection-failed", "Connection refused"),
        ({"host": "no-such-host.invalid"}, "connection-failed", "cannot find host"),
        ({"options": "-c work_mem=nonsense"}, "connection-refused", 'for parameter "work_mem"'),
    ],
)
def test_the_first_connection_says_what_is_wrong(
    cluster: Cluster, changes: dict[str, Any], code: str, words: str
) -> None:
    load = Load(target(cluster, **changes))
    with pytest.raises(EngineError) as caught:
        load.start()
    assert caught.value.code == code
    assert words in caught.value.message
    assert not caught.value.message.endswith(".")
    assert load.state() == "new"


def test_a_zero_byte_in_a_name_is_refused(cluster: Cluster) -> None:
    with pytest.raises(EngineError):
        Load(target(cluster, user="a\x00b")).start()


def test_settings_for_the_session_arrive(cluster: Cluster) -> None:
    script = """
        select (current_setting('work_mem') = '3MB'
                and current_setting('application_name') = 'other')::int as ok \\gset
        \\set x 1 / :ok
    """
    load = json.loads(target(cluster, options="-c work_mem=3MB", application_name="other"))
    load["groups"][0]["scripts"][0]["text"] = script
    with Run(json.dumps(load)) as run:
        run.wait_for_more("done", 10)
    assert not run.errors
