"""``pgdyno soak`` on a real server: killed in the middle and started again, and what ends it."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patience import wait_until
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.record import GAP, Continuation, Recorder, RunFile
from pgdyno.record.fileformat import APPLICATION_ID
from pgdyno.report.charts.time_axis import time_axis
from pgdyno.report.page.html import render
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words.course import course_in
from pgdyno.results import load, schemas
from pgdyno.results.soak import SoakResult
from pgdyno.scenario.soak import continuation_of
from pgdyno.server import Cluster, connect_plain, find_installation
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.server.local.leftovers import server_processes
from pgdyno.spec import spec_from_fields


def command(server: Cluster | None, run: Path, *more: str) -> list[str]:
    uri = [server.conninfo.uri_without_password] if server else []
    words = ["soak", "mixed", *uri, "-c", "2", "--think", "20ms", "-o", str(run)]
    return [sys.executable, "-m", "pgdyno", *words, "--format", "json", *more]


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    # On a busy machine clients may be late; whether a run is trusted is tested elsewhere.
    assert done.returncode in (0, 4), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(result, schemas()["soak"])
    return result


def play(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True)


def begin(words: list[str], run: Path, intervals: int) -> subprocess.Popen[bytes]:
    """Start a soak and wait until some intervals of a slice are recorded."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def recorded() -> bool:
        assert process.poll() is None, "it ended"
        try:
            with RunFile(run) as file:
                slices = [each.id for each in file.slices("run")]
                return bool(slices) and len(file.intervals(slices[-1:])) >= intervals
        except PgdynoError:
            return False

    wait_until(recorded, "intervals")
    return process


def begin_again(words: list[str], run: Path) -> subprocess.Popen[bytes]:
    with RunFile(run) as file:
        before = len(file.slices("run"))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def more() -> bool:
        assert process.poll() is None, "it ended"
        with RunFile(run) as file:
            slices = [each.id for each in file.slices("run")]
            return len(slices) > before and len(file.intervals(slices[-1:])) >= 1

    wait_until(more, "another slice")
    return process


def rest(server: Cluster | None, run: Path) -> list[str]:
    """The command that goes on for some two seconds. It is begun with a longer time, so that no
    machine is too slow to interrupt it."""
    with RunFile(run) as file:
        ids = [each.id for each in file.slices("run")]
        done_ms = sum(each.duration_ms for each in file.intervals(ids))
    return command(server, run, "-T", f"{done_ms / 1000 + 2:.0f}s")


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_soak_that_is_killed_twice_goes_on_in_the_same_file(
    pg18: Cluster, tmp_path: Path
) -> None:
    run = tmp_path / "soak.db"
    words = command(pg18, run, "-T", "1h")
    kill(begin(words, run, 3))
    another_spec_does_not_go_on_with(run, pg18)
    kill(begin_again(words, run))
    words = rest(pg18, run)
    result = result_of(play(words))
    assert result["ledger"]["done"] > 0
    assert result["measured_s"] > result["planned_s"] - 1
    assert result["ended"] == "planned"
    assert len(result["gaps"]) == 2
    with RunFile(run) as file:
        assert file.ledger().balanced
        gap, _ = file.events(GAP)
        first, second, third = file.slices("run")
        assert first.ended_ms is not None
        assert first.ended_ms <= gap.at_ms + 1
        assert gap.at_ms + (gap.duration_ms or 0) <= second.started_ms
        assert file.run.status == "done"
        assert result["ledger"]["intended"] == file.ledger().intended
        assert result["gaps"][0]["lasted_s"] == (gap.duration_ms or 0) / 1000
        checks = {each["name"]: each["passed"] for each in result["validity"]}
        assert set(checks) == {"generator", "errors", "connections", "ledger"}
        assert checks["errors"]
        assert checks["ledger"]
        loaded = load(file)
        assert isinstance(loaded, SoakResult)
        lines = "\n".join(line.text for line in summary_lines(file, 100))
        assert "s under load" in lines
        assert re.search("expected errors? and no others", lines), "one or several"
        assert "Validity" in render(file)
    again = play(words)
    assert json.loads(again.stdout)["ledger"] == result["ledger"], "it is complete"
    assert again.returncode == (4 if result["distrust"] else 0)
    with RunFile(run) as file:
        course = course_in(file, RunSummary(file))
        assert course is not None
        assert time_axis(file, course).measured_ids == [first.id, second.id, third.id]
        assert "Failed" in render(file)


def another_spec_does_not_go_on_with(run: Path, server: Cluster) -> None:
    fields: dict[str, Any] = {
        "name": "mixed",
        "server": {"kind": "existing", "conninfo": server.conninfo.uri_without_password},
        "workload": {"script": "mixed"},
        "clients": [{"count": 2, "think": "20ms"}],
    }
    assert continuation_of(run, spec_from_fields(fields)) == Continuation(run)
    fields["clients"] = [{"count": 3, "think": "20ms"}]
    with pytest.raises(UsageError, match=r"clients\.0\.count 2 → 3"):
        continuation_of(run, spec_from_fields(fields))


@pytest.mark.long
def test_a_complete_soak_is_of_one_database_and_scale(pg18: Cluster, tmp_path: Path) -> None:
    run = tmp_path / "soak.db"
    words = ["soak", "tpcb-like", pg18.conninfo.uri_without_password, "-c", "1", "-T", "1s", "-s",
             "1", "-o", str(run), "--format", "json"]  # fmt: skip
    words = [sys.executable, "-m", "pgdyno", *words]
    result = result_of(play(words))
    same = play(words)
    assert json.loads(same.stdout)["ledger"] == result["ledger"]
    for more, key in {("-s", "3"): "workload.scale 1 → 3", ("-d", "template1"): "database"}.items():
        if more[0] == "-d":
            host = pg18.conninfo
            more = ("-h", host.host, "-p", str(host.port), "-U", host.user, *more)
            words = [word for word in words if "://" not in word]
        refused = play([*words, *more])
        error = json.loads(refused.stdout)["error"]
        assert error["code"] == "soak-differs", refused.stderr
        assert key in error["message"]


def test_an_untrusted_soak_stays_untrusted(pg18: Cluster, tmp_path: Path) -> None:
    run, script = tmp_path / "soak.db", tmp_path / "fails.sql"
    script.write_text("\\sleep 20 ms\nselect 1 / (random() < 0.5)::int;\n")
    words = ["soak", "-f", str(script), pg18.conninfo.uri_without_password, "-c1", "-T", "2s"]
    words = [sys.executable, "-m", "pgdyno", *words, "-o", str(run), "--format", "json"]
    first, again = play(words), play(words)
    assert first.returncode == 4, first.stderr
    assert again.returncode == 4, again.stderr
    assert json.loads(again.stdout) == json.loads(first.stdout)


@pytest.mark.long
def test_a_stopped_soak_goes_on(pg18: Cluster, tmp_path: Path) -> None:
    run = tmp_path / "soak.db"
    words = command(pg18, run, "-T", "1h")
    process = begin(words, run, 2)
    try:
        refused = play(words)
        process.terminate()
        assert process.wait() == 143
    finally:
        kill(process)
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "run-file-busy"
    with RunFile(run) as file:
        assert file.run.status == "interrupted"
    result = result_of(play(rest(pg18, run)))
    assert result["planned_s"] < 3600, "another time is taken over"
    assert len(result["gaps"]) == 1
    with RunFile(run) as file:
        assert file.ledger().balanced
        assert file.run.spec["load"]["hold"] != "1h"


@pytest.mark.long
def test_the_data_of_an_own_server_outlive_a_kill(open_dir: Path) -> None:
    run = open_dir / "soak.db"
    kill(begin(command(None, run, "-T", "1h"), run, 3))
    assert (open_dir / "soak.server" / "data").exists()
    result = result_of(play(rest(None, run)))
    assert len(result["gaps"]) == 1
    assert result["data_kept"] == str(open_dir / "soak.server")
    with RunFile(run) as file:
        said = " ".join(line.text for line in summary_lines(file, 300))
        assert f"rm -r {open_dir / 'soak.server'}" in said
        assert file.ledger().balanced
        measured = [each.id for each in file.slices()]
        rows = file.series("metric_table", measured, {"relation": "public.test_table"})
        inserted = sum(
            each.done for each in file.intervals(by=("script",)) if each.script == "insert"
        )
        identities = {each.system_identifier for each in file.sightings()}
    # Counts of a server that was ended at once are lost, its rows are not.
    assert len(identities) == 1
    assert rows["n_tup_ins"][-1] < inserted
    assert len(server_processes(open_dir / "soak.server" / "data")) == 0
    with Cluster.create(find_installation(None, None), keep_dir=open_dir / "soak.server") as kept:
        (count,) = rows_of(kept, "select count(*) from test_table")
    # Commits of the last second before the kill are not in the run file.
    assert count >= inserted
    again = open_dir / "again.db"
    (open_dir / "again.server" / "data").mkdir(parents=True)
    refused = play(command(None, again, "-T", "5s"))
    assert json.loads(refused.stdout)["error"]["code"] == "soak-data"


STAYS_AT_ITS_START = """
import signal
from pgdyno.__main__ import main
from pgdyno.server import Cluster
Cluster.start = lambda *_: signal.pause()
main()
"""


@pytest.mark.long
def test_what_was_killed_at_its_start_begins_again(open_dir: Path) -> None:
    run, directory = open_dir / "soak.db", open_dir / "soak.server"
    words = command(None, run, "-T", "1s")
    assert words[:3] == [sys.executable, "-m", "pgdyno"]
    stays = [sys.executable, "-c", STAYS_AT_ITS_START, *words[3:]]
    process = subprocess.Popen(stays, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((directory / "data" / "PG_VERSION").exists, "a data directory")
    kill(process)
    assert not run.exists()
    sqlite3.connect(run).execute(f"pragma application_id = {APPLICATION_ID}").close()
    result = result_of(play(words))
    assert result["gaps"] == []
    assert not (directory / "beginning").exists()
    assert (directory / "data").exists()
    run.unlink()
    refused = play(words)
    assert json.loads(refused.stdout)["error"]["code"] == "soak-data", "it has measured data"
    assert (directory / "data" / "PG_VERSION").exists()


def test_a_soak_that_cannot_begin_leaves_nothing(open_dir: Path) -> None:
    refused = play(command(None, open_dir / "soak.db", "-T", "1s", "--keep-free", "500TB"))
    assert json.loads(refused.stdout)["error"]["code"] == "soak-space"
    assert list(open_dir.iterdir()) == []


def test_a_link_in_place_of_the_server_is_not_followed(open_dir: Path) -> None:
    target = open_dir / "target"
    target.mkdir()
    (open_dir / "soak.server").symlink_to(target)
    refused = play(command(None, open_dir / "soak.db", "-T", "1s"))
    assert refused.returncode == 1
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "linked-directory"
    assert list(target.iterdir()) == []
    assert not (open_dir / "soak.db").exists()


def test_the_directory_of_another_user_is_named(open_dir: Path) -> None:
    if (account := server_account()) is None:
        pytest.skip("only root runs the server under another account")
    (open_dir / "soak.server").mkdir()
    change_owner(open_dir / "soak.server", account)
    refused = play(command(None, open_dir / "soak.db", "-T", "1s"))
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "state-directory"
    assert str(open_dir) in error["message"]
    assert "-o" in error["hint"]
    assert "PGDYNO_HOME" not in error["hint"]


def rows_of(cluster: Cluster, sql: str) -> tuple[Any, ...]:
    with connect_plain(cluster.conninfo) as connection:
        (row,) = connection.execute(sql.encode())
    found: tuple[Any, ...] = row
    return found


@pytest.mark.long
def test_a_restart_of_the_server_voids_one_slice(pg18: Cluster, tmp_path: Path) -> None:
    run = tmp_path / "soak.db"
    process = begin(command(pg18, run, "-T", "21s"), run, 2)
    try:
        pg18.restart()
        assert process.wait() == 4, "of two slices one is void"
    finally:
        kill(process)
    with RunFile(run) as file:
        first, second = file.slices("run")
        assert first.ended_ms == second.started_ms, "the load goes on between them"
        assert first.void
        assert second.void is None
        result = load(file)
        assert isinstance(result, SoakResult)
        assert [each.reason for each in result.void_slices] == [first.void]
        lasted_ms = [each.ended_ms - each.started_ms for each in (first, second)]  # type: ignore[operator]
        assert result.void_share == pytest.approx(lasted_ms[0] / sum(lasted_ms), abs=0.001)
        assert result.ledger_measured.done == file.ledger([second.id]).done
        assert {check.name: check.passed for check in result.validity}["errors"], "of the valid one"
        assert file.ledger().balanced
        assert any("in no figure" in line.text for line in summary_lines(file, 100))


def test_another_server_at_the_same_address_is_refused(
    pg18: Cluster, pg15: Cluster, tmp_path: Path
) -> None:
    run = tmp_path / "soak.db"
    service = tmp_path / "service.conf"
    environment = {**os.environ, "PGSERVICEFILE": str(service)}

    def words() -> list[str]:
        return [sys.executable, "-m", "pgdyno", "soak", "mixed", "service=soak", "-T", "1h", "-c",
                "1", "-o", str(run), "--format", "json"]  # fmt: skip

    _write_service(service, pg18)
    first = subprocess.Popen(words(), env=environment, stdout=subprocess.DEVNULL)
    wait_until(lambda: _intervals(run) >= 2, "intervals")
    kill(first)
    _write_service(service, pg15)
    refused = subprocess.run(words(), env=environment, capture_output=True, text=True)
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "another-server", refused.stderr
    assert "system identifier" in error["message"]
    with RunFile(run) as file:
        assert not file.events(GAP), "the run file is as it was"


def _write_service(path: Path, server: Cluster) -> None:
    known = server.conninfo
    values = {"host": known.host, "port": known.port, "user": known.user, "dbname": known.database}
    path.write_text("\n".join(["[soak]", *(f"{name}={value}" for name, value in values.items())]))


def _intervals(run: Path) -> int:
    try:
        with RunFile(run) as file:
            return len(file.intervals())
    except PgdynoError:
        return 0


def test_a_server_that_is_not_there_yet_is_waited_for(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    server, run = new_cluster(), tmp_path / "soak.db"
    kill(begin(command(server, run, "-T", "1h"), run, 2))
    words = rest(server, run)
    server.stop()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("waiting for it" in line for line in process.stderr)
        server.start()
        process.communicate()
        assert process.returncode in (0, 4)
    finally:
        kill(process)


def test_the_run_file_of_another_command_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Recorder.create(path, name="run", command="run"):
        pass
    with pytest.raises(UsageError, match="of pgdyno run, not of pgdyno soak"):
        continuation_of(path, spec_from_fields({}))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB that nobody else fills."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_it_ends_before_the_disk_is_full_and_goes_on(pg18: Cluster, small_disk: Path) -> None:
    run, ballast = small_disk / "soak.db", small_disk / "ballast"
    refused = play(command(pg18, run, "-T", "1h", "--keep-free", "500TB"))
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "soak-space"
    assert not run.exists()
    words = command(pg18, run, "-T", "1h", "--keep-free", "32MB")
    process = begin(words, run, 2)
    try:
        ballast.write_bytes(bytes(40 << 20))
        assert process.wait() == 3
    finally:
        kill(process)
    with RunFile(run) as file:
        result = load(file)
        assert isinstance(result, SoakResult)
        assert result.ended == "disk"
        assert file.ledger().balanced
    ballast.unlink()
    result_of(play([*rest(pg18, run), "--keep-free", "32MB"]))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"load": {"steps": [{"at": "0s", "share": 1}]}}, "load.steps"),
        ({"events": [{"at": "1s", "settings": {"work_mem": "8MB"}}]}, "an event with settings"),
    ],
    ids=["steps", "settings"],
)
def test_what_would_begin_again_is_refused(fields: dict[str, Any], said: str) -> None:
    from pgdyno.scenario.soak import check_soak

    server = {"kind": "existing", "conninfo": "host=nowhere"}
    with pytest.raises(UsageError, match=said):
        check_soak(spec_from_fields({"server": server, **fields}))
