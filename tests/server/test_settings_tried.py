"""Settings that are not at their built-in value, on real servers: those that are suspects, and those
that an investigation may reset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.facts.unusual import JudgedSetting
from pgdyno.investigate._proposals import ProposalLimits
from pgdyno.investigate._suspects import Suspects, suspects_of
from pgdyno.plans.unusual import unusual_settings
from pgdyno.record import UnusualSetting
from pgdyno.remedy import circumstances
from pgdyno.server import Cluster, connect_plain
from pgdyno.server.connecting.control import names_of_catalog
from pgdyno.spec import Change, spec_from_fields
from pgdyno.spec.durability import DurabilityClass

pytestmark = pytest.mark.server

UNUSUAL = {
    "autovacuum_naptime": ("10s", "1min"),
    "checkpoint_timeout": ("10min", "5min"),
    "commit_delay": ("500", "0"),
    "enable_hashjoin": ("off", "on"),
    "log_min_duration_statement": ("1s", "-1"),
    "shared_buffers": ("64MB", "128MB"),
    "shared_preload_libraries": ("auto_explain", ""),
    "track_functions": ("all", "none"),
    "wal_consistency_checking": ("heap", ""),
    "work_mem": ("8MB", "4MB"),
}
HARMLESS = {
    "application_name": "somebody",
    "log_line_prefix": "%m",
    "max_connections": "90",
    "statement_timeout": "1h",
    "timezone": "UTC",
    "lc_monetary": "C",
}
"""Settings of names, formats, limits and access."""


def by_name(cluster: Cluster, *listed: str, setup: str | None = None) -> dict[str, UnusualSetting]:
    """The unusual settings, without those that the cluster was made with and are not listed."""
    found = unusual_settings(cluster.conninfo, setup, {*cluster.configured} - {*listed})
    return {each.name: each for each in found}


def test_a_server_as_it_is_made_has_none(pg: Cluster) -> None:
    assert by_name(pg) == {}


@pytest.mark.parametrize("version", [18, 15])
def test_those_that_can_matter_are_listed(
    new_cluster: Callable[..., Cluster], version: int
) -> None:
    settings = {name: value for name, (value, _) in UNUSUAL.items()}
    cluster = new_cluster(version, **settings, **HARMLESS)
    found = by_name(cluster, *settings, *HARMLESS)
    assert {name: (each.value, each.reset) for name, each in found.items()} == UNUSUAL
    assert {name for name, each in found.items() if each.needs_restart} == {
        "shared_buffers",
        "shared_preload_libraries",
    }
    # A session that executes statements and undoes them shows the cost of these alone.
    assert {name for name, each in found.items() if each.may_set} == {
        "enable_hashjoin",
        "log_min_duration_statement",
        "track_functions",
        "work_mem",
    }


@pytest.fixture
def of_some(pg: Cluster) -> Iterator[Cluster]:
    """A server with settings of a database and of a role in it."""
    name = pg.conninfo.database
    with closing(connect_plain(pg.conninfo)) as connection:
        connection.execute(f"alter database {name} set jit_above_cost = 0".encode())
        connection.execute(f"alter role all in database {name} set work_mem = '1MB'".encode())
        yield pg
        connection.execute(f"alter database {name} reset jit_above_cost".encode())
        connection.execute(f"alter role all in database {name} reset work_mem".encode())


def test_those_of_a_database_and_a_session_are_listed(of_some: Cluster) -> None:
    found = by_name(of_some, setup="set commit_siblings = 1")
    assert {each.name: (each.value, each.reset) for each in found.values()} == {
        "commit_siblings": ("1", "5"),
        "jit_above_cost": ("0", "100000"),
        "work_mem": ("1MB", "4MB"),
    }
    assert found["commit_siblings"].source == "session"
    assert found["jit_above_cost"].source == "database"


EAGER = {f"jit_{each}above_cost": "0" for each in ("", "inline_", "optimize_")}


def test_they_are_asked_for_by_a_query_that_is_not_compiled(pg15: Cluster) -> None:
    """Compiled with all optimisation it takes longer than a statement of a look may."""
    with closing(connect_plain(pg15.conninfo)) as connection:
        connection.execute(
            "".join(f"set {name} = {each};" for name, each in EAGER.items()).encode()
        )
        connection.execute("set jit = on")
        query, plans = b"explain (analyze, format json) select count(*) from pg_settings", []
        for keeps_jit in (True, False):
            with names_of_catalog(connection, keeps_jit=keeps_jit):
                plans += connection.execute(query).fetchone() or ()
    assert ["JIT" in plan for (plan,) in plans] == [True, False]


@pytest.mark.parametrize("version", [18, 15])
def test_that_of_jit_is_listed_as_the_session_has_it(
    new_cluster: Callable[..., Cluster], version: int
) -> None:
    cluster = new_cluster(version, **EAGER)
    usual = {**dict.fromkeys(EAGER, "500000"), "jit_above_cost": "100000"}
    eager = {name: ("0", reset) for name, reset in usual.items()}
    for setup, jit in (("set jit = off", {"jit": ("off", "on")}), (None, {})):
        found = by_name(cluster, *EAGER, setup=setup)
        assert {each.name: (each.value, each.reset) for each in found.values()} == eager | jit
        assert all(each.may_set for each in found.values())


def test_that_others_rely_on_is_marked(new_cluster: Callable[..., Cluster]) -> None:
    settings = {"wal_level": "logical", "max_wal_senders": "5", "archive_mode": "on"}
    found = by_name(
        new_cluster(18, **settings, deadlock_timeout="2s"), *settings, "deadlock_timeout"
    )
    assert {name: each.relied_on for name, each in found.items()} == {
        **dict.fromkeys(settings, True),
        "deadlock_timeout": False,
    }


def suspects(
    session: Session, *, allow: DurabilityClass = "D0", may_apply: bool = False
) -> Suspects:
    """The suspects of an investigation of this session's server, as it is."""
    session.start_load()
    session.stop_load()
    found = unusual_settings(session.target.conninfo, None)
    return suspects_of(
        [JudgedSetting(each) for each in found],
        session,
        ProposalLimits(allow, may_apply),
        state=Change(),
        server=circumstances(session.spec, session.target.facts["settings"]),
        guarded={"bgwriter_delay": "a finding needs it"},
    )


KINDS = {
    "autovacuum_naptime": "10s",
    "bgwriter_delay": "10ms",
    "checkpoint_timeout": "10min",
    "fsync": "off",
    "huge_pages": "off",
    "shared_buffers": "160MB",
    "track_functions": "all",
    "wal_level": "logical",
}


def names(found: Suspects) -> set[str]:
    return {each.name for each in found.tried} & {*KINDS}


def test_on_a_server_of_ours_all_are_reset_that_others_do_not_need(tmp_path: Path) -> None:
    spec = spec_from_fields({"server": {"settings": KINDS}, "clients": [{"count": 1}]})
    with open_session(
        spec, run=tmp_path / "run.db", command="investigate", spec_text="", watcher=Silent()
    ) as session:
        assert names(suspects(session)) == {"autovacuum_naptime", "huge_pages", "track_functions"}


@pytest.mark.parametrize("may_apply", [False, True])
def test_on_a_server_of_the_user_the_permissions_of_remedies_hold(
    new_cluster: Callable[..., Cluster], tmp_path: Path, may_apply: bool
) -> None:
    cluster = new_cluster(18, **KINDS)
    uri = cluster.conninfo.uri_without_password
    spec = spec_from_fields(
        {"server": {"kind": "existing", "conninfo": uri}, "clients": [{"count": 1}]}
    )
    with open_session(
        spec,
        run=tmp_path / "run.db",
        command="investigate",
        spec_text="",
        watcher=Silent(),
        may_apply=may_apply,
    ) as session:
        found = suspects(session, may_apply=may_apply)
    # Other processes use track_functions and autovacuum_naptime; a restart is never made.
    assert names(found) == ({"autovacuum_naptime", "track_functions"} if may_apply else set())
    assert {*found.left_out} >= {"huge_pages", "fsync", "shared_buffers", "wal_level"}


def test_one_of_the_database_is_reset_in_the_sessions_of_the_load(tmp_path: Path) -> None:
    setup = tmp_path / "setup.sql"
    setup.write_text(
        "create table t (n int);\n"
        "do $$ begin execute format('alter database %I set jit_above_cost = 7',"
        " current_database()); end $$;\n"
    )
    script = tmp_path / "script.sql"
    script.write_text(
        "select current_setting('jit_above_cost') as cost \\gset\ninsert into t values (:cost);\n"
    )
    spec = spec_from_fields(
        {
            "workload": {"script": [{"file": str(script)}], "setup": str(setup)},
            "clients": [{"count": 1, "think": "20ms"}],
        }
    )
    with open_session(
        spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
    ) as session:
        assert "jit_above_cost" in {each.name for each in suspects(session).tried}
        session.start_load()
        session.apply(Change(settings={"jit_above_cost": "100000"}))
        session.wait(0.5)
        session.apply(Change())
        session.wait(0.5)
        session.stop_load()
        with connect_plain(session.target.conninfo) as connection:
            seen = connection.execute("select n from t group by n order by n").fetchall()
    assert seen == [(7,), (100000,)]
