"""Branches from one state: the same rows and pages at each start, on a clone or on a copy."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patience import wait_until
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.disk.mounting import mounts_below
from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import RunFile
from pgdyno.results import load, schemas
from pgdyno.results.branch import BranchResult
from pgdyno.scenario._branch_state import SavedState
from pgdyno.scenario.branch import run_branches
from pgdyno.scenario.branch_variants import variants_of, with_cloning_disk
from pgdyno.server import Installation, connect_plain
from pgdyno.server.directories import clusters_dir
from pgdyno.spec import Spec, spec_from_fields
from remains import running_in

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("nothing_left")]
BRANCHES = [
    {"name": "freeze", "events": [{"at": "200ms", "sql": "vacuum freeze pgbench_accounts"}]},
    {
        "name": "more",
        "settings": {"work_mem": "8MB"},
        "vary": {"clients.count": 1},
        "events": [{"at": "200ms", "clients": {"web": 4}}],
    },
]


def needs_xfs() -> None:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("an image file needs root and loop devices")
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")


def fields_of(installation: Installation, disk: str) -> dict[str, Any]:
    return {
        "name": "branches",
        "server": {"bindir": str(installation.bindir)},
        "disk": {"data": disk},
        "workload": {"scale": 1},
        "clients": [{"name": "web", "count": 2, "think": "20ms"}],
        "load": {"hold": "700ms", "max_other_programs": 1},
        "branching": {"before": "500ms", "rounds": 3},
        "branches": BRANCHES,
    }


def spec_of(installation: Installation, disk: str) -> Spec:
    return spec_from_fields(fields_of(installation, disk))


@pytest.mark.long
def test_each_measurement_begins_with_the_saved_state(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    fields = fields_of(installation_of(18), "plain")
    fields["branches"] = [*BRANCHES, {"name": "matched", "match": "freeze"}]
    result, path = branched(spec_from_fields(fields), tmp_path)
    assert result.state.rows["public.pgbench_accounts"] == 100_000
    assert result.state.rows["public.pgbench_history"] > 0
    assert result.same_state
    starts = [start for each in result.branches for start in each.starts]
    assert len(starts) == 9
    assert {start.pages_sha256 for start in starts} == {result.state.pages_sha256}
    assert all(start.rows == result.state.rows for start in starts)
    first, more, matched = result.branches
    assert first.effect is None
    assert first.events[0].ended is not None
    assert more.title == "work_mem = 8MB, clients.count = 1"
    assert more.effect is not None
    assert more.effect.pairs == 3
    assert more.own_effect is not None
    with RunFile(path) as run:
        assert run.ledger().balanced
        order = [str(each.change.get("settings")) for each in run.slices("branch")]
        changed = [number for number, settings in enumerate(order) if "work_mem" in settings]
        assert changed == [1, 3, 8], "each round begins with the next branch"
        assert matched.match is not None
        assert matched.match.branch == "freeze"
        assert matched.change["clients"] == {"web": matched.match.clients}
        assert matched.match.clients in {point.clients for point in matched.match.points}
        assert {each.kind for each in run.slices()} >= {"lead", "branch"}
        assert [each.clients for each in run.intervals([more.starts[0].slice])][-1] == 4


def branched(spec: Spec, folder: Path) -> tuple[BranchResult, Path]:
    path = folder / "run.db"
    variants = variants_of(spec)
    with open_session(spec, run=path, command="branch", spec_text="", watcher=Silent()) as session:
        result = run_branches(session, variants)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["branch"])
    with RunFile(path) as run:
        assert load(run) == result
    return result, path


def test_a_statement_that_fails_ends_the_command(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    bad = {"name": "bad", "events": [{"at": "0s", "sql": "vacuum nothing"}]}
    fields = fields_of(installation_of(18), "plain")
    spec = spec_from_fields({**fields, "branches": [bad, BRANCHES[1]]})
    with pytest.raises(RunError, match="branch bad: vacuum nothing: relation") as found:
        branched(spec, tmp_path)
    assert found.value.code == "branch-statement"


def test_xfs_in_an_image_file_is_cloned(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    needs_xfs()

    def check(session: Session) -> None:
        state = SavedState(session)
        assert state.clones
        with connect_plain(session.target.conninfo) as conn:
            conn.execute("truncate pgbench_accounts")
        assert state.restore().pages == state.pages

    in_session(spec_of(installation_of(18), "xfs:2GB"), tmp_path, check)


def test_a_state_that_was_changed_is_not_used(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    def check(session: Session) -> None:
        state = SavedState(session)
        cluster = session.target.cluster
        assert cluster is not None
        with connect_plain(cluster.conninfo) as conn:
            row = conn.execute("select pg_relation_filepath('pgbench_tellers')").fetchone()
            conn.execute("insert into pgbench_history (tid) values (1)")
        assert row is not None
        assert state.restore().rows == state.rows
        with (cluster.directory / "branches" / "data" / row[0]).open("r+b") as file:
            file.seek(8000)
            file.write(b"changed")
        with pytest.raises(RunError, match="the pages that were restored differ") as found:
            state.restore()
        assert found.value.code == "branch-state"

    in_session(spec_of(installation_of(18), "plain"), tmp_path, check)


def test_data_that_do_not_fit_twice_are_refused_before_they_are_copied(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    needs_xfs()
    fields = fields_of(installation_of(18), "xfs:500MB")

    def check(session: Session) -> None:
        with connect_plain(session.target.conninfo) as conn:
            conn.execute(
                "create unlogged table filler as select repeat('x', 1000)"
                " from generate_series(1, 180000)"
            )
        with pytest.raises(SetupError, match="a branch may write all of them again") as found:
            SavedState(session)
        assert found.value.code == "branch-space"

    in_session(spec_from_fields(fields), tmp_path, check)


def test_tables_in_a_tablespace_are_refused(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    def check(session: Session) -> None:
        with connect_plain(session.target.conninfo) as conn:
            conn.execute("set allow_in_place_tablespaces = on")
            conn.execute("create tablespace elsewhere location ''")
            conn.execute("create table t tablespace elsewhere as select 1 as a")
        with pytest.raises(SetupError, match="are in a tablespace") as found:
            SavedState(session)
        assert found.value.code == "branch-tablespace"

    in_session(spec_of(installation_of(18), "plain"), tmp_path, check)


def in_session(spec: Spec, folder: Path, check: Callable[[Session], None]) -> None:
    run = folder / "run.db"
    with open_session(spec, run=run, command="branch", spec_text="", watcher=Silent()) as session:
        check(session)


def test_a_disk_that_the_user_chose_stays(installation_of: Callable[[int], Installation]) -> None:
    spec = spec_of(installation_of(18), "plain")
    assert with_cloning_disk(spec) == (spec, "")


def test_nothing_is_left_after_kill_9(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    needs_xfs()
    before = set(clusters_dir().iterdir())
    path = tmp_path / "spec.toml"
    bindir = installation_of(18).bindir
    path.write_text(
        f'[server]\nbindir = "{bindir}"\n[disk]\ndata = "xfs:2GB"\n[load]\nhold = "300ms"\n'
        '[[clients]]\ncount = 2\nthink = "20ms"\n'
        '[branching]\nrounds = 900\n[[branches]]\nname = "a"\n[[branches]]\nname = "b"\n'
    )
    run = tmp_path / "run.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "pgdyno", "branch", path, "-q", "-o", run], start_new_session=True
    )
    try:
        wait_until(lambda: measured_slices(run) > 2, "three measurements")
        (directory,) = set(clusters_dir().iterdir()) - before - {clusters_dir() / ".lock"}
        assert mounts_below(directory)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: not mounts_below(directory) and not running_in(directory), "the end")
    (tmp_path / "next").mkdir()
    in_session(spec_of(installation_of(18), "plain"), tmp_path / "next", lambda _: None)
    assert not directory.exists()


def measured_slices(path: Path) -> int:
    try:
        with RunFile(path) as run:
            return len([each for each in run.slices("branch") if each.ended_ms])
    except UsageError:  # It is not there, or just being made.
        return 0
