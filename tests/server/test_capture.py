"""Captures of loads on real servers: the transactions that are found, what is not in the file, and
the clone that is made of it."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from capturing import as_client, capture_of, spec_of
from patience import PATIENCE_S
from pgdyno.capture import _readings, alike
from pgdyno.clone import Capture, read_capture
from pgdyno.clone.capture_file import Parameter, Partitions
from pgdyno.conduct import Silent
from pgdyno.conduct.source_settings import with_source_settings
from pgdyno.errors import Interrupted, RunError, SetupError
from pgdyno.server import Cluster, connect_plain

pytestmark = [pytest.mark.server]

SECONDS = 2.0
SECRET = "hush-{}"
SCHEMA = f"""
create extension pg_stat_statements;
alter role current_user set random_page_cost = 1.5;
alter role current_user set application_name = '{SECRET.format("name")}';
create role watcher login password '{SECRET.format("role")}' in role pg_monitor;
create role reader login password '{SECRET.format("role")}' in role pg_monitor, pg_read_all_data;
create schema "Shop; 1";
create type "Shop; 1".mood as enum ('glad', 'sad');
create table "Shop; 1".people (
    id bigserial primary key, email text unique not null, "Kind of" text default '{SECRET.format(0)}',
    mood "Shop; 1".mood, born date check (born > '1900-01-01'), parts int[], spare int default 7
);
create table "Shop; 1".visits (
    id uuid primary key default gen_random_uuid(), person bigint not null references "Shop; 1".people,
    at timestamptz default now(), note varchar(40)
);
create table "Shop; 1".events (day date, id bigint, primary key (day, id)) partition by range (day);
create table "Shop; 1".e1 partition of "Shop; 1".events for values from ('2024-01-01') to ('2024-02-01');
create table "Shop; 1".e2 partition of "Shop; 1".events for values from ('2024-02-01') to ('2024-04-01');
insert into "Shop; 1".events select date '2024-01-01' + i % 60, i from generate_series(1, 600) i;
create table "Shop; 1"."People" ("Größe" int primary key, "größe" text, "a""b" int);
create table "Shop; 1".booked (slot int4multirange primary key, person bigint unique);
create index on "Shop; 1".visits (person);
create index on "Shop; 1".people (lower(email)) where "Kind of" = '{SECRET.format(1)}';
comment on table "Shop; 1".people is '{SECRET.format(2)}';
create function "Shop; 1".f() returns text language sql as 'select ''{SECRET.format(3)}''';
insert into "Shop; 1".people (email, "Kind of", mood, born)
select 'hush-' || i || '@example.com', 'hush-kind-' || i % 3, 'glad', '1980-01-01'
  from generate_series(1, 3000) i;
insert into "Shop; 1".visits (person, note)
select i % 3000 + 1, 'hush-note-' || i from generate_series(1, 6000) i;
analyze;
"""
READ = 'select count(*) from "Shop; 1".events where day = %s'
SELECT = 'select email from "Shop; 1".people where id = %s'
INSERT = 'insert into "Shop; 1".visits (person, note) values (%s, %s) returning id'
UPDATE = "update \"Shop; 1\".visits set note = 'hush-set' where id = %s /* hush-comment */"


@contextmanager
def load(cluster: Cluster, *, ends: bool = False) -> Iterator[Cluster]:
    """Two sessions with one transaction each over and over; the server may end meanwhile."""
    ended, begun = threading.Event(), threading.Barrier(3)
    values = as_client(cluster.conninfo)

    def work(number: int) -> None:
        lost = (psycopg.OperationalError,) if ends else ()
        with contextlib.suppress(*lost), psycopg.connect(**values, autocommit=True) as conn:
            person = number
            while not ended.is_set():
                person = person % 3000 + 1
                conn.execute(READ, ("2024-02-03",))
                with conn.transaction():
                    conn.execute(SELECT, (person,))
                    row = conn.execute(INSERT, (person, f"hush-new-{person}")).fetchone()
                    assert row is not None
                    ended.wait(0.002)
                    conn.execute(UPDATE, row)
                if person == number + 1:
                    begun.wait(PATIENCE_S)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    try:
        begun.wait(PATIENCE_S)
        yield cluster
    finally:
        ended.set()
        for each in threads:
            each.join()


def source(new_cluster: Callable[..., Cluster], major: int, **settings: str) -> Cluster:
    cluster = new_cluster(
        major,
        shared_preload_libraries="pg_stat_statements",
        work_mem="7MB",
        synchronous_commit="off",
        log_line_prefix=SECRET.format("prefix"),
        **settings,
    )
    with connect_plain(cluster.conninfo) as conn:
        conn.execute(SCHEMA.encode())
    return cluster


def captured(cluster: Cluster, path: Path, role: str) -> Capture:
    with load(cluster):
        return taken(cluster, path, user=role, password=SECRET.format("role"))


def taken(
    cluster: Cluster,
    path: Path,
    logs: tuple[Path, ...] = (),
    *,
    rename: bool = False,
    **values: str,
) -> Capture:
    return capture_of(cluster.conninfo, path, SECONDS, logs, rename=rename, **values)


@pytest.mark.parametrize(("major", "role"), [(18, "reader"), (15, "watcher")])
def test_a_load_and_its_clone(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int, role: str
) -> None:
    path = tmp_path / "shop.pgdyno"
    found = captured(source(new_cluster, major), path, role)
    assert read_capture(path) == found
    content = path.read_text()
    assert "hush" not in content
    assert base64.b64encode(b"hush").decode()[:5] not in content
    assert b"hush".hex() not in content

    (first,) = (each for each in found.transactions if len(each.steps) == 3)
    texts = [found.statements[each.statement].text for each in first.steps]
    assert [text.split()[0].lower() for text in texts] == ["select", "insert", "update"]
    assert first.block
    assert found.source.sessions == 2
    tables = {each.full_name: each for each in found.tables}
    events = tables["Shop; 1.events"]
    assert (events.rows, events.partitions) == (
        600,
        Partitions("range", ("day",), 2, (0.5167, 0.4833)),
    )
    (read,) = (each for each in found.statements if "events" in each.text)
    assert read.parameters == (Parameter("date", "compared", "Shop; 1.events", "day"),)
    booked = tables["Shop; 1.booked"]
    assert (booked.keys, booked.has_primary) == ((("person",),), False)
    other = tables["Shop; 1.People"]
    assert [each.name for each in other.columns] == ["Größe", "größe", 'a"b']
    people = tables["Shop; 1.people"]
    assert people.rows == 3000
    assert people.keys == (("id",), ("email",))
    kind = people.column("Kind of")
    assert kind is not None
    assert (kind.distinct, len(kind.frequent)) == ((3, 3) if role == "reader" else (None, 0))
    gaps = " ".join(found.gaps)
    assert "CHECK constraints with values" in gaps
    assert "indexes with values in their text are left out" in gaps
    assert ("without statistics" in gaps) == (role == "watcher")

    own = {"work_mem": "7MB", "synchronous_commit": "off", "random_page_cost": "1.5"}
    assert own.items() <= found.settings.items()
    assert ("effective_io_concurrency" in found.settings) == (major == 15)
    assert all(each.pages is not None for each in found.statements)
    assert {each.index for each in people.scans} == {"id"}
    assert {each.index for each in events.scans} == {"day, id"}
    assert found.source.waits is not None
    assert sum(found.source.waits.values()) == pytest.approx(1.0, abs=0.1)
    assert found.source.is_simple is False
    assert found.source.cpu_ms is not None
    assert found.source.cpu_ms > 0
    assert found.source.findings

    spec, _ = with_source_settings(spec_of(path), found.settings)
    assert own.items() <= spec.server.settings.items()
    likeness = alike(found, spec, SECONDS, Silent())
    assert likeness.done > 10
    assert not likeness.failed
    unlike = [each for each in likeness.compared if each.verdict == "unlike"]
    assert not any(each.kind == "errors" for each in unlike)
    assert not any(each.name == "rows of a call" for each in unlike)
    known = {each.name for each in likeness.compared if each.verdict != "unknown"}
    assert {"transactions", "CPU of a transaction", "sessions at work", "first finding"} <= known


@pytest.mark.parametrize(("major", "destination"), [(18, "jsonlog"), (15, "csvlog")])
def test_transactions_of_the_log(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int, destination: str
) -> None:
    settings = {"logging_collector": "on", "log_destination": destination, "log_directory": "log"}
    # A plan in the log is not a second execution.
    settings |= {"log_transaction_sample_rate": "0.5", "session_preload_libraries": "auto_explain"}
    cluster = source(new_cluster, major, **settings)
    with connect_plain(cluster.conninfo) as conn:
        conn.execute("alter database postgres set auto_explain.log_min_duration = 0")
    with load(cluster):
        found = taken(cluster, tmp_path / "shop.pgdyno", (cluster.data_dir / "log",))
    assert not [each for each in found.gaps if "the log" in each]
    (block,) = (each for each in found.transactions if len(each.steps) > 1)
    texts = [found.statements[each.statement].text for each in block.steps]
    assert [text.split()[0].lower() for text in texts] == ["select", "insert", "update"]
    assert block.block
    assert {(each.times, each.share) for each in block.steps} == {(1.0, 1.0)}
    assert "hush" not in (tmp_path / "shop.pgdyno").read_text()


def test_without_the_extension(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster(18)
    path = tmp_path / "none.pgdyno"
    with pytest.raises(SetupError, match="pg_stat_statements") as failed:
        taken(cluster, path)
    assert failed.value.hint is not None
    assert "CREATE EXTENSION" in failed.value.hint
    assert not path.exists()


def test_a_load_without_statements(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = source(new_cluster, 18)
    with pytest.raises(SetupError, match="no statement") as failed:
        taken(cluster, tmp_path / "x.pgdyno")
    assert failed.value.hint is not None


def test_the_server_ends_meanwhile(
    new_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = source(new_cluster, 18)
    monkeypatch.setattr(_readings, "EVERY_S", 0.01)
    after_reads(monkeypatch, 3, lambda: cluster.stop("immediate"))
    with load(cluster, ends=True):
        found = taken(cluster, tmp_path / "shop.pgdyno")
    assert any("the load was watched for" in each for each in found.gaps)
    assert len(found.transactions) >= 2
    assert read_capture(tmp_path / "shop.pgdyno") == found


def test_the_user_stops_it(
    new_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = source(new_cluster, 18)
    monkeypatch.setattr(_readings, "EVERY_S", 0.01)
    after_reads(monkeypatch, 2, lambda: signal.raise_signal(signal.SIGINT))
    path = tmp_path / "shop.pgdyno"
    with load(cluster), pytest.raises(Interrupted) as stopped:
        taken(cluster, path)
    assert stopped.value.exit_status == 130
    assert str(path) in str(stopped.value.hint)
    assert any("it was interrupted" in each for each in read_capture(path).gaps)


def disk_full(place: Path) -> None:
    with (place / "rest").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_the_disk_fills_meanwhile(
    new_cluster: Callable[..., Cluster], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_kept_elsewhere(new_cluster, small, monkeypatch, lambda: disk_full(small))


def test_the_directory_goes_meanwhile(
    new_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    check_kept_elsewhere(new_cluster, place, monkeypatch, place.rmdir)


def check_kept_elsewhere(
    new_cluster: Callable[..., Cluster],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[], None],
) -> None:
    """A capture whose file cannot be written any more is whole in another place."""
    cluster = source(new_cluster, 18)
    monkeypatch.setattr(_readings, "EVERY_S", 0.01)
    after_reads(monkeypatch, 2, happens)
    path = place / "shop.pgdyno"
    with load(cluster), pytest.raises(RunError) as failed:
        taken(cluster, path)
    assert failed.value.code == "capture-elsewhere"
    assert str(path) in failed.value.message
    assert failed.value.hint is not None
    kept = Path(failed.value.hint.removesuffix(" has the capture"))
    try:
        assert read_capture(kept).transactions
        assert (kept.name, kept.stat().st_mode & 0o777) == (path.name, 0o600)
    finally:
        shutil.rmtree(kept.parent)
    assert not path.exists()


def after_reads(monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], None]) -> None:
    """Have something happen between two readings of counters."""
    reads: list[None] = []
    read = _readings.Readings._read_if_due

    def read_if_due(self: _readings.Readings) -> None:
        read(self)
        reads.append(None)
        if len(reads) == number:
            happens()

    monkeypatch.setattr(_readings.Readings, "_read_if_due", read_if_due)


def test_counters_that_are_reset_meanwhile(
    new_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = source(new_cluster, 18)
    monkeypatch.setattr(_readings, "EVERY_S", 0.01)

    def reset() -> None:
        with connect_plain(cluster.conninfo) as conn:
            conn.execute("select pg_stat_statements_reset(), pg_stat_reset()")

    after_reads(monkeypatch, 3, reset)
    with load(cluster):
        found = taken(cluster, tmp_path / "shop.pgdyno")
    gaps = " ".join(found.gaps)
    assert "pg_stat_statements was reset" in gaps
    assert "the database's statistics were reset" in gaps
    assert found.source.transactions_per_s > 0
    assert len(found.course) >= 2
    assert max(each.transactions_per_s for each in found.course) > 0
    assert max(each.sessions for each in found.course) >= 2


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"compute_query_id": "off"}, "capture-query-ids"), ({}, "capture-statements")],
)
def test_statements_that_are_not_seen(
    new_cluster: Callable[..., Cluster], tmp_path: Path, settings: dict[str, str], code: str
) -> None:
    cluster = source(new_cluster, 18, **settings)
    with connect_plain(cluster.conninfo) as conn:
        conn.execute("create role nobody login")
    with load(cluster), pytest.raises(SetupError) as failed:
        taken(cluster, tmp_path / "x.pgdyno", user="nobody")
    assert failed.value.code == code
    assert failed.value.hint is not None


def test_clients_that_connect_for_each_transaction(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = source(new_cluster, 18)
    values, ended = as_client(cluster.conninfo), threading.Event()

    def work() -> None:
        while not ended.is_set():
            with psycopg.connect(**values, autocommit=True) as conn:
                conn.execute(SELECT, (1,))
                time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = taken(cluster, tmp_path / "shop.pgdyno")
    finally:
        ended.set()
        thread.join()
    # One after the other, and an ending one beside the next.
    assert 1 <= found.source.sessions <= 2


def test_other_names(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    path = tmp_path / "shop.pgdyno"
    with load(source(new_cluster, 18)) as cluster:
        found = taken(cluster, path, rename=True)
    content = path.read_text().lower()
    for name in ("shop; 1", "people", "visits", "events", "person", "email", "kind of", "größe"):
        assert name not in content
    (block,) = (each for each in found.transactions if len(each.steps) == 3)
    texts = [found.statements[each.statement].text for each in block.steps]
    assert [text.split()[0].lower() for text in texts] == ["select", "insert", "update"]
    assert not [each for each in found.gaps if "not certain" in each]
