"""Profiles on real servers: the check of all lines at once, and which lines make the difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from pgdyno.compare.own_profiles import OWN, MachineSize, own_profile
from pgdyno.compare.profile import compare_profile
from pgdyno.compare.profile_check import Checked, ProfileCheck
from pgdyno.compare.profile_file import Profile, parse_profile
from pgdyno.conduct import Silent, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.record import RunFile
from pgdyno.report import terminal_summary
from pgdyno.report.page.html import render
from pgdyno.results import load, schemas
from pgdyno.results.compare import CompareResult
from pgdyno.server import Cluster, Installation
from pgdyno.spec import Spec, spec_from_fields
from pgdyno.spec.durability import DurabilityClass

pytestmark = pytest.mark.server

BAD = """\
wrk_mem = 4MB
work_mem 8 MB
work_mem = 1MB
work_mem = 2MB
shared_buffers = 4000GB
wal_level = minimal
random_page_cost = -1
autovacuum = off
autovacuum_naptime = 10s
port = 3
DateStyle = nonsense
log_timezone = nowhere
max_connections = 2
"""
ATTEMPTS = 4
SLEEP = """\
select pg_sleep(case current_setting('cursor_tuple_fraction') when '0.2' then 0.001 else 0.02 end);
"""


def spec_of(server: dict[str, Any], **more: Any) -> Spec:
    return spec_from_fields(
        {
            "name": "profiles",
            "server": server,
            "workload": {"scale": 1},
            "clients": [{"name": "web", "count": 2, "think": "20ms"}],
            "load": {"max_other_programs": 1, "seed": 5},
            **more,
        }
    )


def own_server(installation: Installation) -> dict[str, Any]:
    return {"bindir": str(installation.bindir)}


def checked(
    profile: Profile, spec: Spec, path: Path, allow: DurabilityClass | None = None
) -> Checked:
    check = ProfileCheck(profile, spec, allow)
    with open_session(
        spec,
        run=path,
        command="compare",
        spec_text="",
        watcher=Silent(),
        may_apply=True,
        ready=check.ready,
    ):
        return check.checked


@pytest.mark.parametrize("major", [15, 18])
def test_everything_that_is_wrong_is_said_at_once(
    installation_of: Callable[[int], Installation], tmp_path: Path, major: int
) -> None:
    spec = spec_of(own_server(installation_of(major)))
    with pytest.raises(UsageError) as caught:
        checked(parse_profile(BAD, name="bad.conf"), spec, tmp_path / "run.db")
    assert caught.value.code == "profile-unusable"
    lines = caught.value.message.splitlines()
    assert {"bad.conf", "10"} <= {*lines[0].split()}
    numbers = [int(line.split()[1].rstrip(":")) for line in lines[1:] if "  line " in line]
    assert numbers == [1, 2, 5, 6, 7, 10, 11, 12, 13, 13, 3, 9]
    assert "work_mem" in lines[1]
    assert "memory" in lines[3]
    assert "max_wal_senders = 0" in lines[4]
    assert "autovacuum" in lines[-1].split()


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("major", [15, 18])
def test_a_server_takes_our_own_profiles(
    installation_of: Callable[[int], Installation], tmp_path: Path, name: str, major: int
) -> None:
    spec = spec_of(own_server(installation_of(major)))
    found = checked(own_profile(name, MachineSize(1 << 30, 2.0)), spec, tmp_path / "run.db")
    assert len(found.profile.lines) > 5
    classes = {each.durability_class for each in found.assessments.values()}
    assert classes <= ({"D0", "D1", "D2"} if name == "aggressive" else {"D0"})
    if name == "aggressive":
        assert "(30 s)" in found.assessments["synchronous_commit"].bound
        assert any("does not pause" in str(each) for each in found.remarks)


def test_on_the_users_server_nothing_is_lost_or_restarted_unasked(
    pg18: Cluster, tmp_path: Path
) -> None:
    spec = spec_of({"kind": "existing", "conninfo": pg18.conninfo.uri_without_password})
    profile = parse_profile("synchronous_commit = off\nwork_mem = 9MB\n", name="p")
    with pytest.raises(UsageError, match=r"line 1: .*above the durability limit D0: D1"):
        checked(profile, spec, tmp_path / "a.db")
    found = checked(profile, spec, tmp_path / "b.db", allow="D1")
    assert [*found.profile.settings] == ["synchronous_commit", "work_mem"]
    restart = parse_profile("wal_buffers = 1MB\n", name="p")
    with pytest.raises(UsageError, match="line 1: wal_buffers: takes effect only after a restart"):
        checked(restart, spec, tmp_path / "c.db")


def test_lines_in_force_already_are_no_change(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    spec = spec_of(own_server(installation_of(18)))
    profile = parse_profile("work_mem = 4096kB\njit = off\n", name="p")
    found = checked(profile, spec, tmp_path / "a.db")
    assert [*found.profile.settings] == ["jit"]
    assert [each.setting for each in found.in_force] == ["work_mem"]
    with pytest.raises(UsageError, match="every line is in force already"):
        checked(found.profile.without(["jit"]), spec, tmp_path / "b.db")


def test_a_line_that_keeps_the_server_from_starting_is_named(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    spec = spec_of(own_server(installation_of(18)))
    text = "work_mem = 5MB\nwal_buffers = 1MB\nshared_preload_libraries = 'nowhere'\n"
    check = ProfileCheck(parse_profile(text, name="p.conf"), spec, None)
    with (
        pytest.raises(SetupError) as caught,
        open_session(
            spec, run=tmp_path / "a.db", command="compare", spec_text="", watcher=Silent(),
            ready=check.ready,
        ) as session,
    ):  # fmt: skip
        compare_profile(session, check, budget_s=60.0, slice_s=0.1, pairs_max=6, ablate=False)
    assert caught.value.code == "start-failed"
    assert "nowhere" in caught.value.message
    assert "p.conf, line 3: shared_preload_libraries = nowhere" in caught.value.message
    assert "line 2" not in caught.value.message


def test_a_setting_of_nobody_is_kept_and_said_to_be_without_effect(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    spec = spec_of(own_server(installation_of(18)))
    text = (
        "myapp.tenant = 'x'\nauto_explain.log_timing = off\n"
        "shared_preload_libraries = 'auto_explain'\n"
    )
    found = checked(parse_profile(text, name="p"), spec, tmp_path / "a.db")
    assert len(found.profile.settings) == 3
    assert [each.number for each in found.remarks] == [1]


@pytest.mark.long
def test_the_line_that_matters_is_kept(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    """A trial decides at 95 %: a line without effect is kept by chance once in forty times."""
    script = tmp_path / "sleep.sql"
    script.write_text(SLEEP)
    spec = spec_of(
        own_server(installation_of(18)), workload={"script": [{"file": str(script)}], "scale": 1}
    )
    profile = parse_profile(
        "work_mem = 4096kB\ncursor_tuple_fraction = 0.2\nlock_timeout = 1h\n", name="p.conf"
    )
    for attempt in range(ATTEMPTS):
        path = tmp_path / f"run-{attempt}.db"
        check = ProfileCheck(profile, spec, None)
        with open_session(
            spec, run=path, command="compare", spec_text="", watcher=Silent(), ready=check.ready
        ) as session:
            result = compare_profile(
                session, check, budget_s=3600.0, slice_s=0.1, pairs_max=6, ablate=True
            )
        kept = {each.setting for each in result.lines if each.kept}
        assert "cursor_tuple_fraction" in kept
        if kept == {"cursor_tuple_fraction"}:
            break
    assert_kept(result, path)


def assert_kept(result: CompareResult, path: Path) -> None:
    assert result.effect is not None
    assert result.effect.throughput_ratio > 2
    assert {each.setting: each.kept for each in result.lines} == {
        "work_mem": False,
        "cursor_tuple_fraction": True,
        "lock_timeout": False,
    }
    assert result.shortest is not None
    assert [*parse_profile(result.shortest, name="p").settings] == ["cursor_tuple_fraction"]
    assert result.ablation is not None
    assert result.ablation.trials == 2
    assert result.ablation.shortest_effect is not None
    assert result.ablation.shortest_effect.ci95[0] > 1.5
    as_json = json.loads(json.dumps(result.to_json()))
    jsonschema.validate(as_json, schemas()["compare"])
    assert {"effect", "lines", "shortest"} <= as_json.keys()
    with RunFile(path) as run:
        assert load(run) == result
        assert run.ledger().balanced
        console = Console(file=StringIO(), width=120)
        terminal_summary(run, console)
        assert "cursor_tuple_fraction = 0.2" in console.file.getvalue()  # type: ignore[attr-defined]
        assert "Lines of the profile" in render(run)
