"""Standbys, the relay before them and pg_receivewal, on real servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno.errors import SetupError
from pgdyno.server import Cluster, Installation
from pgdyno.server.replication.receivers import Receivers
from pgdyno.server.replication.standby import Standby
from pgdyno.spec.standby import StandbySpec

pytestmark = [pytest.mark.server, pytest.mark.alike]

Find = Callable[[int], Installation]


@pytest.fixture(params=[18, 15])
def receivers(request: pytest.FixtureRequest, installation_of: Find) -> Iterator[Receivers]:
    """The receivers of a primary with a table ``kept``."""
    with Cluster.create(installation_of(request.param), {"fsync": "off"}) as primary:
        execute(primary, "create table kept (id int primary key)")
        receivers = Receivers(primary)
        try:
            yield receivers
        finally:
            receivers.close()


def execute(cluster: Cluster, statement: str) -> None:
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(statement.encode())


def value_of(cluster: Cluster, statement: str) -> object:
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        row = conn.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def slots(cluster: Cluster) -> object:
    return value_of(cluster, "select array_agg(slot_name::text) from pg_replication_slots")


class Writer:
    """A commit on a thread of its own, which may have to wait."""

    def __init__(self, cluster: Cluster, statement: str) -> None:
        self._cluster = cluster
        self._thread = threading.Thread(target=execute, args=(cluster, statement), daemon=True)
        self._thread.start()

    def wait_until_done(self) -> None:
        wait_until(lambda: not self._thread.is_alive(), "it has committed")

    def wait_until_it_waits(self) -> None:
        """For a standby: it would not come to that if it needed none."""
        waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
        wait_until(lambda: value_of(self._cluster, waits) == 1, "it waits for a standby")
        assert self._thread.is_alive()


def test_commits_wait_for_whom_the_mode_names(receivers: Receivers) -> None:
    primary = receivers.primary
    receivers.arrange(StandbySpec(count=1, mode="remote_apply"), relayed=True)
    [standby] = receivers.standbys
    execute(primary, "insert into kept values (1)")
    assert value_of(standby.cluster, "select count(*) from kept") == 1
    assert standby.relay is not None
    standby.relay.hold()
    waiting = Writer(primary, "insert into kept values (2)")
    waiting.wait_until_it_waits()
    standby.relay.release()
    waiting.wait_until_done()

    receivers.arrange(StandbySpec(count=1, mode="local"), relayed=True)
    standby.relay.hold()
    execute(primary, "insert into kept values (3)")
    lag = standby.lag()
    assert lag is not None
    assert lag.sync_state == "quorum"
    assert lag.replay_bytes
    standby.relay.release()

    receivers.arrange(StandbySpec())
    assert value_of(primary, "show synchronous_standby_names") == ""
    assert slots(primary) is None
    execute(primary, "insert into kept values (4)")


def test_a_quorum_needs_only_so_many(receivers: Receivers) -> None:
    primary = receivers.primary
    receivers.arrange(StandbySpec(count=2, mode="on", quorum=1), relayed=True)
    first, second = receivers.standbys
    assert first.relay is not None
    assert second.relay is not None
    first.relay.hold()
    Writer(primary, "insert into kept values (1)").wait_until_done()
    receivers.primary.configure(
        {"synchronous_standby_names": f"ANY 2 ({first.name}, {second.name})"}
    )
    waiting = Writer(primary, "insert into kept values (2)")
    waiting.wait_until_it_waits()
    first.relay.release()
    waiting.wait_until_done()


def test_a_standby_outlives_its_primary_promoted_and_comes_back(receivers: Receivers) -> None:
    primary = receivers.primary
    receivers.arrange(StandbySpec(count=1, mode="on"))
    [standby] = receivers.standbys
    execute(primary, "insert into kept values (1)")
    primary.kill()
    standby.promote()
    execute(standby.cluster, "insert into kept values (2)")
    assert value_of(standby.cluster, "show synchronous_standby_names") == ""
    receivers.release_primary()
    primary.start()
    execute(primary, "insert into kept values (3)")
    assert standby.rebuild() == "rewound"
    standby.start()
    standby.wait_caught_up()
    assert value_of(standby.cluster, "select array_agg(id order by id) from kept") == [1, 3]
    assert standby.rebuild() == "fresh"
    standby.start()
    standby.wait_caught_up()


def test_a_paused_standby_resumes_or_is_made_afresh(receivers: Receivers) -> None:
    primary = receivers.primary
    with_one, with_none = StandbySpec(count=1, mode="on"), StandbySpec()
    receivers.arrange(with_one)
    cluster = receivers.standbys[0].cluster
    receivers.arrange(with_none)
    assert not cluster.running
    execute(primary, "insert into kept values (1)")
    receivers.arrange(with_one)
    assert value_of(cluster, "select count(*) from kept") == 1
    said = cluster.log_path.read_text()
    receivers.arrange(with_none)
    for _ in range(3):
        execute(primary, "select pg_switch_wal()")
        execute(primary, "insert into kept select max(id) + 1 from kept")
        execute(primary, "checkpoint")
    receivers.arrange(with_one)
    assert receivers.standbys[0].cluster is cluster
    assert value_of(cluster, "select count(*) from kept") == 4
    assert "requested WAL segment" not in cluster.log_path.read_text()[len(said) :]


def test_the_receiver_s_wal_brings_back_what_waited_for_it(receivers: Receivers) -> None:
    primary = receivers.primary
    execute(primary, "checkpoint")
    receivers.arrange(StandbySpec(mode="on", receivewal=True))
    wal_receiver = receivers.wal_receiver
    assert wal_receiver is not None
    execute(primary, "insert into kept select generate_series(1, 1000)")
    primary.kill()
    for path in primary.wal_dir.iterdir():
        if path.is_file():
            path.unlink()
    wal_receiver.stop()
    assert wal_receiver.copy_segments_to(primary.wal_dir)
    receivers.release_primary()
    primary.start()
    assert value_of(primary, "select count(*) from kept") == 1000


def test_the_path_to_the_primary_may_have_anything_in_it(
    open_dir: Path, installation_of: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(open_dir / 'it\'s a \\ "home"'))
    with Cluster.create(installation_of(15), {"fsync": "off"}) as primary:
        execute(primary, "create table kept (id int primary key)")
        receivers = Receivers(primary)
        try:
            for relayed in (False, True):
                receivers.arrange(StandbySpec(), relayed=False)
                wanted = StandbySpec(count=1, mode="remote_apply")
                receivers.arrange(wanted, relayed=relayed)
                execute(primary, f"insert into kept values ({int(relayed)})")
            receivers.arrange(StandbySpec(mode="on", receivewal=True))
            execute(primary, "insert into kept values (2)")
        finally:
            receivers.close()


def test_standbys_have_what_a_restarted_primary_needs(receivers: Receivers) -> None:
    primary = receivers.primary
    receivers.arrange(StandbySpec(count=1, mode="remote_apply"))
    receivers.raise_minimums({"max_connections": "150", "work_mem": "8MB"})
    primary.configure({"max_connections": "150"})
    primary.restart()
    receivers.wait_caught_up()
    Writer(primary, "insert into kept values (1)").wait_until_done()
    assert value_of(receivers.standbys[0].cluster, "show max_connections") == "150"


def test_nothing_is_left_of_a_standby_that_could_not_be_made(receivers: Receivers) -> None:
    primary = receivers.primary
    primary.configure({"max_wal_senders": "0"})
    primary.restart()
    with pytest.raises(SetupError, match=r"no base backup could be made: .*max_wal_senders"):
        Standby.create(primary, "pgdyno_standby_1", relayed=True)
    assert slots(primary) is None
    assert not [thread for thread in threading.enumerate() if thread.name == "relay"]
