"""Poolers that pgdyno starts in front of a server: the whole path, refusals, and what is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from patience import PATIENCE_S, wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.drill._workloads import SUMS, differences
from pgdyno.errors import PgdynoError, RunError, SetupError
from pgdyno.investigate.run import run_spec
from pgdyno.pooler import Gateway
from pgdyno.pooler._kind import kinds
from pgdyno.record import RunFile, SliceKind
from pgdyno.report.words.pooler import queue_words
from pgdyno.report.words.sentences import setting_of_run
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.server.directories import clusters_dir
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.read import read_fields
from pgdyno.workload._found import BUSINESS_COLUMNS
from pooler_fixtures import existing
from remains import running_in

pytestmark = pytest.mark.server

TRANSACTION = {"pool_mode": "transaction", "default_pool_size": "3"}


def spec_with(kind: str, settings: dict[str, str] | None = None, **fields: Any) -> Spec:
    """A spec whose load goes through a pooler; skips where that is not installed."""
    if kind != "none":
        program = kinds()[kind].program
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"no {program} on this machine")
    load = {"hold": "1s", "protocol": "extended", **fields.pop("load", {})}
    groups = fields.pop("clients", [{"name": "web", "count": 3, "think": "10ms"}])
    return spec_from_fields(
        {
            "pooler": {"kind": kind, "settings": settings or {}},
            "workload": {"scale": 1, **fields.pop("workload", {})},
            "clients": groups,
            "load": load,
            **fields,
        }
    )


def transactions_of(path: Path, spec: Spec) -> dict[str, int]:
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        run_spec(session)
    with closing(sqlite3.connect(path)) as db:
        names = ("intended", "done", "failed", "skipped", "cancelled")
        row = db.execute(f"select {', '.join(f'sum({n})' for n in names)} from interval").fetchone()
    return dict(zip(names, row, strict=True))


TOPOLOGIES = {
    "direct": ("none", {}),
    "pgbouncer-session": ("pgbouncer", {"pool_mode": "session"}),
    "pgbouncer-transaction": ("pgbouncer", TRANSACTION),
    "pgpool": ("pgpool", {}),
    "haproxy": ("haproxy", {}),
}

MOST_APART = [
    each
    if each in ("pgbouncer-transaction", "pgpool")
    else pytest.param(each, marks=pytest.mark.long)
    for each in TOPOLOGIES
]
"""Those that do most with what passes, and the others in `make test-long`."""


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_same_script_has_the_same_ledger(name: str, pg18: Cluster, tmp_path: Path) -> None:
    kind, settings = TOPOLOGIES[name]
    spec = spec_with(
        kind, settings, server=existing(pg18), load={"transactions": 40, "hold": "10min"}
    )
    totals = transactions_of(tmp_path / "run.db", spec)
    expected = {"intended": 120, "done": 120, "failed": 0, "skipped": 0, "cancelled": 0}
    assert totals == expected


BUSINESS = Path(__file__).parents[2] / "scenarios" / "business.toml"
ORDERS = """
    select count(*), count(distinct id) from business_orders where state in ('placed', 'paid')
"""


def business_through(kind: str, settings: dict[str, str], cluster: Cluster) -> Spec:
    """The whole scenario, ten times faster: so many transactions from each client, none skipped for
    being late and none given up."""
    fields, _ = read_fields(BUSINESS)
    for group in fields["clients"]:
        group.pop("latency_limit", None)
        group.get("pool", {}).pop("max_wait", None)
        if isinstance(arrival := group.get("arrival"), dict):
            group["arrival"] = {"rate": 10 * arrival["rate"]}
        group |= {name: "40ms" for name in ("think", "hold_open") if name in group}
    load = {"transactions": 5, "hold": "10min", "protocol": "extended"}
    return spec_with(
        kind,
        settings,
        server=existing(cluster),
        workload={**fields["workload"], "scale": 1},
        clients=fields["clients"],
        load=load,
    )


@pytest.fixture
def no_business(pg18: Cluster) -> Iterator[ConnInfo]:
    """The database pgdyno, without the tables of business before and after."""
    database = replace(pg18.conninfo, database="pgdyno")
    drop = f"drop table if exists {', '.join(BUSINESS_COLUMNS)}".encode()

    def clear() -> None:
        # The first run makes the database.
        with (
            suppress(psycopg.OperationalError),
            connect_plain(database) as connection,
        ):
            connection.execute(drop)

    clear()
    yield database
    clear()


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", MOST_APART)
def test_business_has_the_same_ledger_and_sums(
    name: str, pg18: Cluster, no_business: ConnInfo, tmp_path: Path
) -> None:
    kind, settings = TOPOLOGIES[name]
    # In session mode each connection that sends something keeps its own server connection.
    sizes = {"pgbouncer-session": {"default_pool_size": "25"}}
    spec = business_through(kind, settings | sizes.get(name, {}), pg18)
    totals = transactions_of(tmp_path / "run.db", spec)
    per_client = {"web-orders": 24, "app-orders": 16, "partner-orders": 6}
    others = {"shop": 12, "payments": 6, "stream": 2, "desk": 3}
    wanted = 5 * sum({**per_client, **others}.values())
    assert totals == {
        "intended": wanted, "done": wanted, "failed": 0, "skipped": 0, "cancelled": 0
    }  # fmt: skip
    with connect_plain(no_business) as connection:
        assert differences(connection) == dict.fromkeys(SUMS, 0)
        orders = 5 * sum(per_client.values())
        assert connection.execute(ORDERS.encode()).fetchone() == (orders, orders)
        events = connection.execute("select count(*) from business_events").fetchone()
        assert events == (5 * others["stream"] * 100,)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", MOST_APART)
def test_services_have_names_of_their_own(name: str, pg18: Cluster, tmp_path: Path) -> None:
    kind, settings = TOPOLOGIES[name]
    groups = [
        {"name": "web", "count": 4, "instances": 2, "pool": {"max": 2}},
        {"name": "jobs", "count": 2, "think": "1ms"},
        {"name": "probe", "count": 1, "idle": True},
    ]
    spec, path = (
        spec_with(kind, settings, server=existing(pg18), clients=groups),
        tmp_path / "run.db",
    )

    def seen() -> set[str]:
        with RunFile(path) as run:
            return set(run.series("metric_origin")["application"])

    wanted = {"pgdyno/web", "pgdyno/jobs"}
    # PgBouncer gives a client that sends nothing no server connection.
    wanted |= set() if kind == "pgbouncer" else {"pgdyno/probe"}
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        with session.measured("run"):
            wait_until(lambda: wanted <= seen(), seen, look=lambda: session.wait(0.1))
        session.stop_load()
    assert kind != "pgbouncer" or "pgdyno/probe" not in seen()


def test_what_business_cannot_do_through_a_pooler_is_told(pg18: Cluster) -> None:
    def told(settings: dict[str, str]) -> str:
        spec = business_through("pgbouncer", settings, pg18)
        return "\n".join(kinds()["pgbouncer"].warnings(spec, (1, 18)))

    # Those that are idle send nothing, and have no server connection.
    assert "20 of the 25 clients" in told({"pool_mode": "session"})
    assert told({"pool_mode": "transaction"}) == ""
    assert told(TRANSACTION) == snapshot(
        "hold_open: transactions left open by desk keep up to 3 of the pool's 3 server connections,"
        " idle in transaction, from the other clients"
    )


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(name, marks=pytest.mark.long if name == "pgpool" else ())
        for name in TOPOLOGIES
        if name != "direct"
    ],
)
def test_it_starts_and_stops_ten_times(kind: str, pg18: Cluster) -> None:
    name, settings = TOPOLOGIES[kind]
    gateway = Gateway(pg18.conninfo)
    for _ in range(10):
        gateway.arrange(spec_with(name, settings))
        with psycopg.connect(**gateway.entrance.kwargs()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        gateway.close()


@pytest.mark.usefixtures("nothing_left")
def test_the_load_goes_through_it_and_the_rest_past_it(tmp_path: Path) -> None:
    spec = spec_with("pgbouncer", TRANSACTION, clients=[{"name": "web", "count": 6}])
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        target = session.target
        assert target.entrance != target.conninfo
        directory = Path(target.entrance.host)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        for file in ("users", "pgbouncer.ini"):
            assert stat.S_IMODE((directory / file).stat().st_mode) == 0o600
        session.start_load()
        counts = []
        with connect_plain(session.target.conninfo) as connection:

            def some_work() -> bool:
                row = connection.execute(
                    "select count(*) from pg_stat_activity where application_name = 'pgdyno'"
                ).fetchone()
                counts.append(row[0] if row else 0)
                return counts[-1] >= 3

            wait_until(some_work, "the pool is full", look=lambda: session.wait(0.05))
        session.stop_load()
    assert max(counts) == 3
    with RunFile(path) as run:
        pooler = run.run.server["pooler"]
        assert pooler["settings"] == TRANSACTION
        assert any("through PgBouncer" in words for words in setting_of_run(run.run))
        assert [e for e in run.events() if e.kind == "pooler-log"]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("pgbouncer", TRANSACTION, "clients waited for a server connection"),
        ("pgpool", {"num_init_children": "3"}, r"[1-5]\.\d more in its listen queue, at most 5"),
        (
            "haproxy",
            {"default-server": "maxconn 3"},
            r"on average [1-5]\.\d of [1-8]\.\d clients waited",
        ),
    ],
    ids=["pgbouncer", "pgpool", "haproxy"],
)
def test_its_own_queues_are_sampled(
    kind: str,
    settings: dict[str, str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # As users have it, without /usr/sbin.
    path, script = tmp_path / "run.db", tmp_path / "sleeping.sql"
    script.write_text("select pg_sleep(0.02);\n")
    workload = {"script": [{"file": str(script)}]}
    spec = spec_with(kind, settings, clients=[{"name": "web", "count": 8}], workload=workload)
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        with session.measured("run"):
            wait_until(lambda: _queue_is(path, words), words, look=lambda: session.wait(0.1))
        session.stop_load()
    with RunFile(path) as run:
        rows = run.series("metric_pooler", [each.id for each in run.slices()])
        assert max(rows["servers_active"]) <= 3
        if kind == "pgbouncer":
            assert max(rows["clients_waiting"]) >= 1
            assert max(rows["wait_ms"]) > 0


def _queue_is(path: Path, words: str) -> bool:
    """Whether two samples at least tell of the queue in these words."""
    with RunFile(path) as run:
        samples = len(run.series("metric_pooler")["at_ms"])
        return samples >= 2 and bool(re.search(words, queue_words(run, None)))


@pytest.mark.usefixtures("nothing_left")
def test_two_slices_differ_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    spec = spec_with("none", clients=[{"name": "web", "count": 4, "think": "20ms"}])
    changes = [
        Change(spec={"pooler.kind": "pgbouncer", "pooler.pool_mode": "transaction"}),
        Change(),
        Change(spec={"pooler.kind": "pgbouncer", "pooler.default_pool_size": "4"}),
    ]
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        for change in changes:
            session.provide(change)
        entrances = []
        for change in changes:
            session.apply(change, warm_up_s_max=0.1)
            session.slice(0.2, kind=SliceKind.TRIAL)
            entrances.append(session.target.entrance)
        assert entrances[1] == session.target.cluster.conninfo  # type: ignore[union-attr]
        assert len(set(map(str, entrances))) == 3
    with RunFile(path) as run:
        assert all(not each.void for each in run.slices())


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("pgbouncer", {"default_pool_size": "many"}, 'default_pool_size = many: .* "many" is not'),
        ("pgbouncer", {"no_such": "1"}, "no_such = 1: PgBouncer .* there is no such setting"),
        ("pgbouncer", {"auth_file": "/etc/passwd"}, "auth_file: pgdyno itself sets this"),
        ("pgbouncer", {"listen_port": "0"}, 'listen_port: "0" is not a port'),
        ("pgbouncer", {"timeout client": "1"}, '"timeout client" is not the name of a setting'),
        ("pgpool", {"num_init_children": "many"}, 'num_init_children = many: .* "many" is not'),
        ("pgpool", {"child_life_time": "-5"}, "child_life_time = -5: .* outside the valid range"),
        ("pgpool", {"no_such": "1"}, "no_such = 1: .* there is no such setting"),
        ("pgpool", {"serialize_accept": "maybe"}, "serialize_accept = maybe: .* be taken as on"),
        ("pgpool", {"listen_addresses": "*"}, "listen_addresses: pgdyno itself sets this"),
        ("haproxy", {"no_such": "1"}, "no_such = 1: HAProxy .* unknown keyword"),
        ("haproxy", {"timeout client": "long"}, "timeout client = long: HAProxy .* unexpected"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_wrong_setting_is_named(
    pg18: Cluster, kind: str, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(SetupError, match=words):
        Gateway(pg18.conninfo).arrange(spec_with(kind, settings))


def test_clients_that_will_not_be_served_are_counted_before_the_load() -> None:
    def told(kind: str, settings: dict[str, str], version: tuple[int, ...]) -> str:
        spec = spec_with(kind, settings, clients=[{"name": "web", "count": 50}])
        return "\n".join(kinds()[kind].warnings(spec, version))

    few = {"num_init_children": "40"}
    assert "listen queue" in told("pgpool", few, (4, 3, 5))
    assert told("pgpool", few | {"reserved_connections": "1"}, (4, 3, 5)) == snapshot(
        "num_init_children = 40: pgpool-II serves 40 of the 50 clients; it refuses the others"
        " (reserved_connections)"
    )
    assert "20 of the 50 clients" in told("pgbouncer", {}, (1, 18))
    assert told("pgbouncer", TRANSACTION, (1, 18)) == ""
    assert "refuses 10 of the 50" in told("pgbouncer", {"max_client_conn": "40"}, (1, 18))
    assert "2 of the 50" in told("haproxy", {"default-server": "maxconn 2"}, (2, 6))


@pytest.mark.usefixtures("nothing_left")
def test_a_port_in_use_is_named(pg18: Cluster) -> None:
    taken = {"listen_addr": "127.0.0.1", "listen_port": str(pg18.conninfo.port)}
    with pytest.raises(SetupError, match=r"listen_port = \d+: .* cannot listen on .* in use"):
        Gateway(pg18.conninfo).arrange(spec_with("pgbouncer", taken))


def test_prepared_statements_need_a_pooler_that_keeps_them(pg18: Cluster) -> None:
    spec = spec_with("pgbouncer", TRANSACTION, load={"protocol": "prepared"})
    version = (1, 18)
    with pytest.raises(SetupError, match="does not support prepared") as raised:
        kinds()["pgbouncer"].check(spec, version)
    assert "-M extended" in str(raised.value.hint)
    kinds()["pgbouncer"].check(spec, (1, 24))
    with pytest.raises(SetupError, match="does not support prepared"):
        kinds()["pgbouncer"].check(spec, (1, 22))


def test_one_that_is_not_installed_is_named_with_its_package(
    pg18: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_with("pgbouncer")
    monkeypatch.setattr(type(kinds()["pgbouncer"]), "program", "no-such-program")
    with pytest.raises(SetupError, match="PgBouncer is not installed") as raised:
        Gateway(pg18.conninfo).arrange(spec)
    assert raised.value.code == "pooler-missing"
    assert raised.value.hint == snapshot("apt-get install pgbouncer, or dnf install pgbouncer")


def run_under(number: signal.Signals, spec: Spec, path: Path) -> None:
    """A run whose pooler gets a signal."""
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        session.wait_connected()
        process = session.target.gateway._process  # type: ignore[union-attr]
        assert process is not None
        os.kill(process.pid, number)
        session.wait(PATIENCE_S)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kind", ["pgbouncer", "pgpool", "haproxy"])
def test_one_that_dies_ends_the_run(kind: str, pg18: Cluster, tmp_path: Path) -> None:
    spec = spec_with(kind, server=existing(pg18), load={"hold": "10min"})
    with pytest.raises(RunError, match=r"was ended by SIGKILL during the run"):
        run_under(signal.SIGKILL, spec, tmp_path / "run.db")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kind", ["pgbouncer", "haproxy"])
def test_one_that_hangs_ends_the_run_and_is_ended(
    kind: str, pg18: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.server.local.guarded._SUSPENDED_S_MAX", 0.5)
    monkeypatch.setattr("pgdyno.pooler._process._STOP_S_MAX", 0.5)
    spec = spec_with(kind, server=existing(pg18), load={"hold": "10min"})
    with pytest.raises(RunError, match="is stopped by a signal and answers nobody"):
        run_under(signal.SIGSTOP, spec, tmp_path / "run.db")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "kind",
    ["pgbouncer", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("pgpool", "haproxy"))],
)
def test_it_ends_with_a_pgdyno_that_is_killed(kind: str, pg18: Cluster, tmp_path: Path) -> None:
    spec_with(kind)
    words = ["run", pg18.conninfo.uri_without_password, "--pooler", kind, "-T", "600"]
    with subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *words, "-o", str(tmp_path / "run.db"), "-P", "1"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGPASSWORD": pg18.conninfo.password or ""},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " tps" in line:
                break
        poolers = [path for path in clusters_dir().iterdir() if (path / "pooler.log").exists()]
        process.kill()
    assert len(poolers) == 1
    wait_until(lambda: not running_in(poolers[0]), "the pooler has ended")
    # The next run of pgdyno removes the directory.
    transactions_of(tmp_path / "next.db", spec_with("none", server=existing(pg18)))


def test_a_users_pooler_gets_no_other_before_it(
    pg18: Cluster, pgbouncer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooler = pgbouncer(pg18, pool_mode="transaction")
    monkeypatch.setenv("PGPASSWORD", pooler.conninfo.password)
    server = {"kind": "existing", "conninfo": pooler.conninfo.uri_without_password}
    spec = spec_with("pgbouncer", server=server)
    with pytest.raises(PgdynoError, match="is a pooler already"):
        transactions_of(tmp_path / "run.db", spec)
