"""Plans that change while a load runs, on a server of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Session, Silent, carry_on, carry_out, open_session, plan_look
from pgdyno.diagnose import diagnose
from pgdyno.record import PlanOverTime, RunFile
from pgdyno.record.finding import Finding
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

SETUP = """
drop table if exists grown;
create table grown (id int, n int) with (autovacuum_enabled = off);
insert into grown select i, i from generate_series(1, 20000) i;
analyze grown;
"""
SCRIPT = "\\set n random(1, 20000)\nselect id from grown where n = :n;\n"
INDEX = {"at": "500ms", "sql": "create index grown_n on grown (n)"}


def ran(
    cluster: Cluster,
    directory: Path,
    *,
    hold: str = "2s",
    carried: Callable[[Session], list[int]] = carry_out,
    **fields: Any,
) -> RunFile:
    with connect_plain(cluster.conninfo) as connection:
        connection.execute(SETUP.encode())
    (directory / "script.sql").write_text(SCRIPT)
    spec = spec_from_fields(
        {
            "name": "grown",
            "server": {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password},
            "workload": {"script": [{"file": str(directory / "script.sql")}]},
            "clients": [{"name": "web", "count": 1}],
            "load": {"hold": hold},
            **fields,
        }
    )
    path = directory / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        plan_look.look_at_plans(session, carried(session))
    return RunFile(path)


def found(run: RunFile) -> Finding:
    (finding,) = (
        each
        for each in diagnose(run, [each.id for each in run.slices("run")]).findings
        if each.id == "changed-plan"
    )
    return finding


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_look, "CHANGED_AFTER_S_MIN", 1)


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_an_index_made_meanwhile(pg18: Cluster, tmp_path: Path, protocol: str) -> None:
    load = {"hold": "2s", "protocol": protocol}
    with ran(pg18, tmp_path, load=load, events=[INDEX]) as run:
        assert run.plans_over_time() == [
            PlanOverTime(
                *("web", "script", 0),
                first="Seq Scan on public.grown",
                last="Index Scan using grown_n on public.grown",
                is_changed=True,
            )
        ]
        finding = found(run)
    assert finding.status == "found"
    assert finding.severity == "minor"


def test_a_ramp_comes_first(pg18: Cluster, tmp_path: Path) -> None:
    load = {"hold": "1500ms", "ramp": "500ms"}
    with ran(pg18, tmp_path, load=load, events=[{**INDEX, "at": "900ms"}]) as run:
        (plan,) = run.plans_over_time()
        (measured,) = run.slices("run")
    assert plan.is_changed
    assert measured.ended_ms is not None
    assert 1400 < measured.ended_ms - measured.started_ms < 3000


def test_times_in_the_first_and_the_last_slice(pg18: Cluster, tmp_path: Path) -> None:
    def in_slices(session: Session) -> list[int]:
        carry_on(session, 0, slice_ms=500, every_s=0.1, goes_on=lambda _: True)
        return session.reader().valid_slices("run")

    with ran(pg18, tmp_path, carried=in_slices, events=[INDEX]) as run:
        names = [each.name for each in found(run).evidence if each.unit == "ms"]
    assert [name.split(":")[0] for name in names] == [
        "mean time in the first slice",
        "mean time in the last slice",
    ]


def test_plans_that_stay(pg18: Cluster, tmp_path: Path) -> None:
    with ran(pg18, tmp_path) as run:
        (plan,) = run.plans_over_time()
        finding = found(run)
    assert not plan.is_changed
    assert finding.status == "cleared"


def test_without_looks_at_plans_nothing_is_said(pg18: Cluster, tmp_path: Path) -> None:
    with ran(pg18, tmp_path, load={"hold": "1500ms", "plans": "none"}) as run:
        assert not run.plans_over_time()
        assert found(run).status == "skipped"
