"""``pgdyno pool`` on a real server: the search, its run file, and what is made from that."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patience import wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import load, schemas
from pgdyno.results.pool import PoolResult
from pgdyno.search.measuring import check_budget
from pgdyno.search.pool import PoolRequest, find_pool, layers_of, prepared_spec
from pgdyno.search.slo import parse_limits
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.pooler import SIZE_SETTINGS, TITLES
from pooler_fixtures import existing

pytestmark = pytest.mark.usefixtures("short_slices")
TPCB = {"script": "tpcb-like", "scale": 1}


def sleeping(folder: Path) -> dict[str, Any]:
    """Transactions that hold a connection and need no core: the more connections, the better."""
    path = folder / "sleeping.sql"
    path.write_text("begin;\nselect pg_sleep(0.005);\nend;\n")
    return {"script": [{"file": str(path)}]}


def found_on(
    server: dict[str, Any], path: Path, *, slo: str = "", clients: int = 12, size_max: int | None,
    budget_s: float = 6, choose: bool = False, workload: dict[str, Any] | None = None,
) -> PoolResult:  # fmt: skip
    limits = parse_limits(slo) if slo else ()
    spec = spec_from_fields(
        {
            "name": "pool",
            "server": server,
            "workload": workload or sleeping(path.parent),
            "clients": [{"count": clients}],
        }
    )
    spec, group = prepared_spec(spec, group=None, choose_clients=False)
    request = PoolRequest(group, limits, size_max, budget_s, instances=3, choose_clients=choose)
    with open_session(spec, run=path, command="pool", spec_text="", watcher=Silent()) as session:
        result = find_pool(session, request)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["pool"])
    with RunFile(path) as run:
        assert load(run) == result
        assert run.ledger().balanced
    return result


def test_a_search_and_what_is_made_of_its_run_file(pg18: Cluster, tmp_path: Path) -> None:
    result = found_on(existing(pg18), tmp_path / "run.db", size_max=4)
    assert result.best is not None
    assert result.clients == 12
    assert result.tried_max <= 4
    assert result.best.size in [point.size for point in result.curve]
    assert result.curve[0].size == 1
    assert all(point.tps > 0 and point.met for point in result.curve)
    assert result.arithmetic is not None
    assert result.arithmetic.instances == 3
    assert len(result.settings) == 4
    assert (result.beyond is None) == (result.best.size == max(p.size for p in result.curve))
    with RunFile(tmp_path / "run.db") as run:
        slices = run.slices()
        assert slices[-1].kind == "hold"
        sizes = {size for each in slices for size in each.change["pool_max"].values()}
        assert sizes >= {point.size for point in result.curve}
        text = "\n".join(line.text for line in summary_lines(run, 120))
        assert "HikariCP" in text
        assert "Pool size" in render(run)
        assert len(list(result_rows(run))) == len(result.curve)


@pytest.mark.long
def test_a_limit_that_no_size_meets(pg18: Cluster, tmp_path: Path) -> None:
    result = found_on(existing(pg18), tmp_path / "run.db", slo="mean<10us", size_max=2)
    assert result.best is None
    assert result.sentence.startswith("no size meets mean < 10us: with ")
    assert "12 clients at " in result.sentence
    assert result.settings == ()
    assert not any(point.met for point in result.curve)


def test_a_limit_says_how_many_clients_there_are(pg18: Cluster, tmp_path: Path) -> None:
    result = found_on(
        existing(pg18), tmp_path / "run.db", slo="mean<100us", size_max=4, choose=True
    )
    assert result.clients == 2
    assert result.tried_max <= 2


@pytest.mark.long
def test_no_more_connections_are_tried_than_are_free(tmp_path: Path) -> None:
    server = {"kind": "embedded", "settings": {"max_connections": "24"}}
    result = found_on(server, tmp_path / "run.db", clients=40, size_max=32)
    assert result.tried_max < 24
    assert result.best is not None
    # The last size has hardly more connections than the one before, which may be as good.
    if result.beyond is None:
        assert "max_connections = 24" in result.limit_beyond.sentence
    else:
        assert result.beyond.size == result.tried_max


def test_the_size_of_pgbouncers_pool_changes_under_load(pg18: Cluster, tmp_path: Path) -> None:
    spec = pooled(pg18, {"pool_mode": "transaction"})
    spec, _ = prepared_spec(spec, group=None, choose_clients=False)
    assert spec.load.protocol == "extended"
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="pool", spec_text="", watcher=Silent()) as session:
        session.apply(Change(spec={"pooler.default_pool_size": "6"}))
        assert session.target.gateway is not None
        host = session.target.gateway.entrance.host

        def in_use() -> int:
            with connect_plain(session.target.conninfo) as connection:
                row = connection.execute(
                    b"select count(*) from pg_stat_activity where backend_type = 'client backend'"
                    b" and query ~ 'pgbench_|^begin|^end' and pid <> pg_backend_pid()"
                ).fetchone()
            return int(row[0]) if row else 0

        for size, least in ((6, 1), (2, 1), (5, 3)):
            session.apply(Change(spec={"pooler.default_pool_size": str(size)}))
            # PgBouncer opens connections as clients need them, and closes them as they are left.
            wait_until(
                lambda size=size, least=least: least <= in_use() <= size,
                f"{least} to {size} connections",
            )
            session.wait(0.2)
            assert in_use() <= size
        assert session.target.gateway.entrance.host == host, "a new process"


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "budget_s"),
    [("pgbouncer", 8), ("pgpool", 25)],
)
def test_a_search_through_a_pooler(
    pg18: Cluster, tmp_path: Path, kind: str, budget_s: float
) -> None:
    spec = pooled(pg18, {}, kind, sleeping(tmp_path))
    spec, group = prepared_spec(spec, group=None, choose_clients=False)
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="pool", spec_text="", watcher=Silent()) as session:
        result = find_pool(session, PoolRequest(group, (), 4, budget_s))
    assert result.pooler == kind
    assert result.best is not None
    assert result.tried_max <= 4
    assert result.settings[0].settings[SIZE_SETTINGS[kind]] == result.best.size
    assert not any(point.why for point in result.curve if not point.met)
    with RunFile(path) as run:
        text = "\n".join(line.text for line in summary_lines(run, 120))
        assert f"through {TITLES[kind]} " in text
        assert f"{SIZE_SETTINGS[kind]} = {result.best.size}" in text
        assert "\nalternative " in text


@pytest.mark.parametrize(("kind", "budget_s"), [("pgbouncer", 20), ("pgpool", 25)])
@pytest.mark.long
def test_a_search_through_the_applications_pools_and_a_pooler(
    pg18: Cluster, tmp_path: Path, kind: str, budget_s: float
) -> None:
    spec, group = prepared_spec(
        pooled(pg18, {}, kind), group=None, choose_clients=False, instances=3
    )
    assert layers_of(spec, group) == (2 if kind == "pgbouncer" else 1)
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="pool", spec_text="", watcher=Silent()) as session:
        result = find_pool(session, PoolRequest(group, (), 4, budget_s, instances=3))
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["pool"])
    application = result.application
    assert application is not None
    assert (application.instances, application.coupled) == (3, kind == "pgpool")
    assert result.best is not None
    assert application.best is not None
    assert application.total == 3 * application.best.size
    if application.coupled:
        assert result.best.size == application.total
        assert [each.size for each in result.curve] == [3 * each.size for each in application.curve]
    pooler, hikari, *_ = result.settings
    assert pooler.settings[SIZE_SETTINGS[kind]] == result.best.size
    assert hikari.settings == {"maximumPoolSize": application.best.size}
    with RunFile(path) as run:
        assert load(run) == result
        changes = [each.change for each in run.slices(kind="hold")]
        setting = f"pooler.{SIZE_SETTINGS[kind]}"
        assert changes[-1]["pool_max"] == {group: application.best.size}
        assert changes[-1]["spec"][setting] == str(result.best.size)
        text = "\n".join(line.text for line in summary_lines(run, 120))
        assert application.sentence in " ".join(text.split())
        assert "\nalternative " not in text
        page = render(run)
        assert ("pool-application-tps" in page) == (len(application.curve) > 1)
        layers = [row["layer"] for row in result_rows(run)]
        assert set(layers) == {"pooler", "application"}


@pytest.mark.parametrize(
    ("fields", "instances", "said"),
    [
        ({"instances": 3, "pool": {"max": 2}}, 4, "has 3 instances in the spec, and --instances 4"),
        ({}, 13, "has 12 clients, and 13 instances"),
        ({"connection": "per-transaction"}, 2, "makes new connections all the time"),
    ],
)
def test_instances_that_cannot_be(
    pg18: Cluster, fields: dict[str, Any], instances: int, said: str
) -> None:
    spec = pooled(pg18, {})
    group = spec.clients[0].model_dump(by_alias=True, exclude_unset=True) | fields
    spec = spec_from_fields(
        {"clients": [group], "pooler": {"kind": "pgbouncer"}, "workload": {"scale": 1}}
    )
    with pytest.raises(UsageError, match=said):
        prepared_spec(spec, group=None, choose_clients=False, instances=instances)


def test_two_sizes_need_a_longer_budget() -> None:
    check_budget(30_000)
    with pytest.raises(UsageError, match="2 sizes to look for need at least 1min"):
        check_budget(30_000, searches=2)


@pytest.mark.long
def test_instances_of_the_spec_have_pools_of_the_size(pg18: Cluster, tmp_path: Path) -> None:
    fields = {
        "server": existing(pg18),
        "workload": sleeping(tmp_path),
        "clients": [{"count": 8, "instances": 2, "pool": {"max": 3}}],
    }
    spec, group = prepared_spec(spec_from_fields(fields), group=None, choose_clients=False)
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="pool", spec_text="", watcher=Silent()) as session:
        result = find_pool(session, PoolRequest(group, (), None, 12))
    assert result.application is None
    assert result.tried_max <= 4
    assert result.best is not None
    assert result.arithmetic is not None
    assert result.arithmetic.total == 2 * result.best.size
    assert result.sentence.startswith("the best pool of each instance has ")


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("pgbouncer", {"pool_mode": "session"}, "with pool_mode = session each client keeps"),
        ("haproxy", {}, "its pool size cannot be looked for"),
    ],
)
def test_poolers_without_a_size(
    pg18: Cluster, kind: str, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        prepared_spec(pooled(pg18, settings, kind), group=None, choose_clients=False)


def pooled(
    cluster: Cluster,
    settings: dict[str, str],
    kind: str = "pgbouncer",
    workload: dict[str, Any] | None = None,
) -> Spec:
    """A spec whose load goes through a pooler; skips where that is not installed."""
    if shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"no {kind} on this machine")
    return spec_from_fields(
        {
            "name": "pool",
            "server": existing(cluster),
            "workload": workload or TPCB,
            "clients": [{"count": 12}],
            "pooler": {"kind": kind, "settings": settings},
        }
    )
