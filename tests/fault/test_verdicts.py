"""No verdict from what was not measured: servers that stop, crash, hang and refuse in the middle of
a run or a comparison, and transactions that fail."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from said import error_of

from patience import PATIENCE_S, wait_until
from pgdyno.record import RunFile
from pgdyno.record.incidents import incidents
from pgdyno.record.void import IncidentCause
from pgdyno.report.page.html import render
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.local.programs import send
from pgdyno.server.replication._relay import Relay

pytestmark = pytest.mark.server

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
UNFINISHED = json.loads((REFERENCE / "result-unfinished.schema.json").read_text())
# For what does not depend on how much is done: loads that leave the cores to the other tests.
INSERT = "\\sleep 20 ms\ninsert into t values (1);\n"
PACED = "select 1;\n\\sleep 20 ms\n"


class Command:
    """A command of pgdyno in a process of its own, with its result as JSON."""

    def __init__(self, folder: Path, command: str, *arguments: str) -> None:
        self.path = folder / "run.db"
        words = [command, *arguments, "-o", str(self.path), "--format", "json", "-q"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pgdyno", *words],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_for(self, query: str, least: int = 1) -> None:
        """Wait until a query of the run file gives at least so much."""

        def gives() -> bool:
            assert self._process.poll() is None, self._process.communicate()
            return self._ask(query) >= least

        wait_until(gives, query)

    def _ask(self, query: str) -> int:
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
                return int(db.execute(query).fetchone()[0] or 0)
        except sqlite3.Error:
            return 0

    def end(self, *statuses: int) -> tuple[dict[str, Any], str]:
        """Its result and what it said on stderr; it must end with one of these statuses."""
        out, err = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode in statuses, err
        assert "Traceback" not in err
        assert "internal error" not in err
        return (json.loads(out) if out else {}), err

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


Begin = Callable[..., Command]
DONE = "select sum(done) from interval where slice_id is not null"
SLICES = "select count(*) from slice where ended_ms is not null and trial_id is not null"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins commands, none of which outlives the test."""
    begun: list[Command] = []

    def start(*arguments: str) -> Command:
        begun.append(Command(tmp_path, *arguments))
        return begun[-1]

    yield start
    for each in begun:
        each.kill()


def processes_of(cluster: Cluster) -> list[int]:
    """The postmaster and its children."""
    assert cluster.pid is not None
    children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
    return [cluster.pid, *map(int, children)]


def signal_all(cluster: Cluster, number: signal.Signals) -> None:
    """To the postmaster first: once it is stopped, it starts no more processes."""
    assert cluster.pid is not None
    os.kill(cluster.pid, number)
    send(processes_of(cluster), number)


@pytest.fixture
def shop(pg18: Cluster) -> Iterator[ConnInfo]:
    """A database and a role of the test's own on the shared server."""
    ours = pg18.conninfo
    with psycopg.connect(**ours.kwargs(), autocommit=True) as connection:
        connection.execute("drop database if exists verdicts with (force)")
        connection.execute("drop role if exists verdicts")
        connection.execute("create role verdicts login password 'secret'")
        connection.execute("create database verdicts")
    values = ours.kwargs() | {"dbname": "verdicts"}
    with psycopg.connect(**values, autocommit=True) as connection:
        connection.execute("create table t (a int)")
        connection.execute("grant insert on t to verdicts")
    yield ours
    with psycopg.connect(**ours.kwargs(), autocommit=True) as connection:
        connection.execute("drop database if exists verdicts with (force)")
        connection.execute("drop role verdicts")


def causes(begun: Command) -> list[IncidentCause]:
    """The causes of its incidents."""
    with RunFile(begun.path) as run:
        return [each.cause for each in incidents(run)]


def unfinished(begun: Command, result: dict[str, Any], err: str) -> dict[str, Any]:
    """Its JSON, which must be that of a command without a result: as on stderr, as
    published, and the same as the run file tells."""
    jsonschema.validate(result, UNFINISHED)
    error = result["error"]
    assert error_of(err) == f"error: {error['message']}\n\nhint: {error['hint']}\n"
    assert result["run_file"] == str(begun.path)
    words = [sys.executable, "-m", "pgdyno"]
    shown = subprocess.run(
        [*words, "show", "--format", "json", begun.path], capture_output=True, check=True
    )
    assert json.loads(shown.stdout) == result
    with RunFile(begun.path) as run:
        assert summary_lines(run, 100)
        assert render(run)
    return result


def uri(conninfo: ConnInfo, *, port: int | None = None, user: str = "verdicts") -> str:
    if port is not None:
        return f"postgresql://{user}:secret@127.0.0.1:{port}/verdicts"
    return f"postgresql://{user}@/verdicts?host={conninfo.host}&port={conninfo.port}"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "own.sql").write_text(text)
        return "own.sql"

    return write


def run_sql(conninfo: ConnInfo, statement: str, database: str | None = None) -> None:
    values = conninfo.kwargs() | ({"dbname": database} if database else {})
    with psycopg.connect(**values, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_comparison_outlives_a_restart(
    new_cluster: Callable[..., Cluster], begin: Begin, script: Callable[[str], str]
) -> None:
    """The pair under way is measured again; what happened stands before all figures."""
    cluster = new_cluster(18)
    begun = begin(
        "compare", cluster.conninfo.uri_without_password, "-c", "4", "-f", script(PACED),
        "--pool-max", "2", "--slice", "200ms", "--budget", "15",
    )  # fmt: skip
    begun.wait_for(SLICES, 2)
    begun.wait_for("select count(*) from slice where ended_ms is null")
    cluster.stop("immediate")
    cluster.start()
    result, _ = begun.end(0, 4)
    (incident,) = result["incidents"]
    assert causes(begun) == [IncidentCause.RESTART]
    assert result["decision"] in ("better", "worse", "no difference", "inconclusive")
    run = RunFile(begun.path)
    trials = {trial.kind: trial for trial in run.trials()}
    assert result["effect"]["pairs"] == len(run.pairs(trials["compare"].id))
    shown = subprocess.run(
        [sys.executable, "-m", "pgdyno", "show", str(begun.path)],
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert incident["sentence"] in shown.stdout.splitlines()[1]
    voids = [each.void for each in run.slices() if each.void]
    assert ("void " in shown.stdout) == bool(voids)


@pytest.mark.long
def test_a_comparison_over_a_server_that_hangs_has_no_verdict(
    new_cluster: Callable[..., Cluster], begin: Begin, script: Callable[[str], str]
) -> None:
    """Connections stay open, nobody is answered, and it does not come back."""
    cluster = new_cluster(18)
    begun = begin(
        "compare", cluster.conninfo.uri_without_password, "-c", "2", "-f", script(PACED),
        "--pool-max", "1", "--budget", "30",
    )  # fmt: skip
    begun.wait_for(SLICES, 2)
    signal_all(cluster, signal.SIGSTOP)
    try:
        result, err = begun.end(2)
    finally:
        signal_all(cluster, signal.SIGCONT)
    told = unfinished(begun, result, err)
    assert [trial["kind"] for trial in told["trials"]] == ["noise"]
    assert told["trials"][0]["outcome"] is None
    assert sum(each["ended"] for each in told["slices"]) >= 2
    assert error_of(err).startswith("error: the server ")
    assert str(begun.path) in told["error"]["hint"]


def test_a_dropped_database(shop: ConnInfo, begin: Begin, script: Callable[[str], str]) -> None:
    begun = begin("run", uri(shop), "-f", script(INSERT), "-c", "1", "-T", "8")
    begun.wait_for(DONE)
    run_sql(shop, "drop database verdicts with (force)")
    result, err = begun.end(4)
    assert not result["trustworthy"]
    assert result["distrust"][0].startswith("the connection was lost, and then: 3D000")
    assert result["incidents"]
    untrusted = "error: the measurement cannot be trusted: the connection was lost"
    assert error_of(err).startswith(untrusted)
    assert IncidentCause.ABSENCE not in causes(begun)


def test_rights_that_are_revoked_end_the_run(
    shop: ConnInfo, begin: Begin, script: Callable[[str], str]
) -> None:
    begun = begin("run", uri(shop), "-f", script(INSERT), "-c", "3", "-T", "60")
    begun.wait_for(DONE)
    run_sql(shop, "revoke insert on t from verdicts", "verdicts")
    result, err = begun.end(2)
    told = unfinished(begun, result, err)
    assert told["failures"]["sqlstate"] == "42501"
    assert {(each["script"], each["line"]) for each in told["errors"]} == {("own", 2)}
    assert (
        "of them in script own: 42501 permission denied for table t"
        in error_of(err).splitlines()[0]
    )
    assert RunFile(begun.path).ledger().balanced


@pytest.mark.parametrize("cut", ["closed", pytest.param("held", marks=pytest.mark.long)])
def test_a_link_that_is_cut(
    shop: ConnInfo, pg18: Cluster, begin: Begin, script: Callable[[str], str], cut: str
) -> None:
    """Closed, or a black hole that answers nothing."""
    relay = Relay(("127.0.0.1", pg18.conninfo.port))
    begun = begin(
        "run", uri(shop, port=relay.port), "-f", script(INSERT), "-c", "1", "-T", "6"
    )  # fmt: skip
    begun.wait_for(DONE)
    relay.close() if cut == "closed" else relay.hold()
    result, _ = begun.end(4)
    relay.close()
    why = {"closed": "the connection was lost", "held": "no client got an answer for"}[cut]
    assert result["distrust"][0].startswith(why)
    assert result["incidents"]


def test_the_share_of_failures_decides(
    shop: ConnInfo, begin: Begin, script: Callable[[str], str]
) -> None:
    """One of four fails; what a script expects does not count. On a busy machine a run may be
    distrusted for another reason."""
    mix = "\\set x random(1, 4)\n\\expect 22012\nselect 1 / 0;\nselect 1 / (:x - 1);\n"
    asked = ("run", uri(shop), "-f", script(mix), "-c", "2", "-t", "500")
    begun = begin(*asked)
    result, err = begun.end(4)
    assert 0.1 < result["failures"]["share"] < 0.5
    assert result["failures"]["sqlstate"] == "22012"
    assert result["distrust"][0].startswith("more than 1 % of the transactions failed: ")
    assert "division by zero" in err
    begun.path.unlink()
    for limit, statuses in (("60%", (0, 4)), ("3", (4,))):
        again = begin(*asked, "--max-failures", limit)
        result, _ = again.end(*statuses)
        blamed = any("of the transactions failed" in reason for reason in result["distrust"])
        assert blamed is (limit == "3"), result["distrust"]
        again.path.unlink()


TWO_GROUPS = """
name = "two"
[[clients]]
name = "reads"
count = 2
script = [{ file = "one.sql" }]
[[clients]]
name = "payments"
arrival = { rate = 5 }
script = [{ file = "own.sql" }]
[load]
hold = "6s"
"""


@pytest.fixture
def two_groups(tmp_path: Path, shop: ConnInfo, script: Callable[[str], str]) -> str:
    script("update t set a = 1;\n")
    (tmp_path / "one.sql").write_text(PACED)
    (tmp_path / "two.toml").write_text(TWO_GROUPS)
    run_sql(shop, "grant select, update on t to verdicts", "verdicts")
    return "two.toml"


def test_a_small_group_that_fails_is_not_hidden_by_a_large_one(
    shop: ConnInfo, begin: Begin, two_groups: str
) -> None:
    begun = begin("run", two_groups, uri(shop), "--max-failures", "20%")
    begun.wait_for(f"{DONE} and client_group = 'payments'")
    run_sql(shop, "alter table t rename to renamed", "verdicts")
    result, err = begun.end(4)
    assert result["failures"]["share"] < 0.2
    assert result["distrust"][0].startswith(
        "more than 20 % of the transactions of client group payments failed: "
    )
    assert "42P01" in err
    payments = result["groups"][1]
    assert not payments["rate_held"]
    assert payments["sentence"].startswith("intended ")


def test_a_group_that_waits_for_a_lock_decides_nothing(
    shop: ConnInfo, begin: Begin, two_groups: str, script: Callable[[str], str]
) -> None:
    script("select pg_advisory_xact_lock(7);\n")
    with psycopg.connect(**shop.kwargs() | {"dbname": "verdicts"}) as connection:
        connection.execute("select pg_advisory_lock(7)")
        begun = begin("run", two_groups, uri(shop))
        result, _ = begun.end(4)
    why = "nothing was done by client group payments, and "
    assert result["distrust"][0].startswith(why)
    assert result["verdict"]["sentence"].startswith(f"no verdict: {why}")


def test_connections_refused_until_the_end(shop: ConnInfo, begin: Begin, script: Any) -> None:
    """Clients that connect for each transaction; the server itself does not go away."""
    begun = begin("run", uri(shop), "-f", script(INSERT), "-c", "4", "-C", "-T", "8")
    begun.wait_for(DONE)
    run_sql(shop, "alter database verdicts connection limit 0")
    # The clients' sessions end by themselves: cut off, they might all be lost at once.
    run_sql(
        shop,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = 'verdicts' and application_name <> 'pgdyno'",
    )
    result, _ = begun.end(4)
    sentences = str(result["incidents"])
    assert IncidentCause.ABSENCE not in causes(begun)
    assert "53300 too many connections for database" in sentences
    assert any("of the measured time" in reason for reason in result["distrust"])
    assert result["distrust"][0].startswith("clients could not connect for ")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("--pool-max", "2"), id="option"),
        pytest.param(("--vary", "clients.pool.max=2"), id="key"),
    ],
)
@pytest.mark.long
def test_a_smaller_pool_is_measured_like_any_change(
    pg18: Cluster, begin: Begin, script: Callable[[str], str], change: tuple[str, str]
) -> None:
    begun = begin(
        "compare", pg18.conninfo.uri_without_password, "-c", "6", "-f", script(PACED), *change,
        "--slice", "200ms", "--budget", "15",
    )  # fmt: skip
    result, _ = begun.end(0, 4)
    assert result["decision"] in ("better", "worse", "no difference", "inconclusive")
    with RunFile(begun.path) as run:
        assert not any("connect" in (each.void or "") for each in run.slices())
        changed = [each.id for each in run.slices() if each.side == "b"]
        trial = [each.id for each in run.slices() if each.change]
        assert set(trial) <= set(changed)
        assert {row.connections for row in run.group_intervals(trial)} == {2}


def test_failures_do_not_make_a_side_win(begin: Begin, script: Callable[[str], str]) -> None:
    """With the change every fourth transaction fails, and fails fast; the setting is one of which
    sessions keep nothing, so that they last."""
    failing = (
        "\\set x random(1, 4)\n\\sleep 20 ms\n"
        "select 1 / (case when current_setting('vacuum_cost_page_hit') = '8' then :x - 1 else 1 end);\n"
        "\\sleep 40 ms\n"
    )
    begun = begin(
        "compare", "-f", script(failing), "-c", "4", "--set", "vacuum_cost_page_hit=8", "--slice", "200ms",
        "--budget", "15",
    )  # fmt: skip
    result, err = begun.end(4)
    assert result["decision"] == "not comparable"
    assert result["set_by"] == {"vacuum_cost_page_hit": "reload"}
    shown = subprocess.run(
        [sys.executable, "-m", "pgdyno", "show", begun.path], capture_output=True, check=True
    )
    assert b"set by ALTER SYSTEM and a reload" in shown.stdout
    assert result["failures"]["before"]["count"] == 0
    assert result["failures"]["after"]["share"] > 0.1
    assert result["distrust"][0].startswith("not comparable: failures differ: ")
    assert "22012 division by zero" in err


@pytest.mark.long
def test_slices_in_which_nothing_ends_have_no_verdict(
    begin: Begin, script: Callable[[str], str]
) -> None:
    """No half a transaction, so that there is a logarithm."""
    begun = begin(
        "compare", "-f", script("select pg_sleep(600);\n"), "-c", "2", "--pool-max", "1",
        "--slice", "200ms", "--budget", "16",
    )  # fmt: skip
    result, err = begun.end(4)
    assert result["decision"] == "no verdict"
    assert result["effect"] is None
    assert "nothing was done, and 2 transactions were due" in err
    assert "longer slices" in err


@pytest.mark.parametrize(
    "length", [("-t", "3"), pytest.param(("-T", "20"), marks=pytest.mark.long)]
)
def test_a_run_of_which_nothing_succeeds_ends_with_2_however_long_it_is(
    begin: Begin, script: Callable[[str], str], length: tuple[str, str]
) -> None:
    begun = begin("run", "-f", script("\\sleep 20 ms\nselect 1 / 0;\n"), "-c", "1", *length)
    result, err = begun.end(2)
    last = error_of(err).splitlines()[0]
    assert last.startswith("error: no transaction succeeds: ")
    assert last.endswith("of them in script own: 22012 division by zero")
    told = unfinished(begun, result, err)
    assert str(begun.path) in told["error"]["hint"]
    assert told["incidents"] == []


@pytest.mark.long
def test_an_investigation_whose_baseline_is_void_has_no_verdict(
    begin: Begin, script: Callable[[str], str]
) -> None:
    begun = begin(
        "investigate", "-f", script("select pg_sleep(600);\n"), "-c", "2", "--budget", "8"
    )
    result, err = begun.end(4)
    told = unfinished(begun, result, err)
    assert told["error"]["code"] == "void-slices"
    assert len([each for each in told["slices"] if each["void"]]) == 3


def test_a_run_that_was_killed_tells_so(begin: Begin) -> None:
    begun = begin("run", "-c", "1", "-S", "--think", "20ms", "-T", "60")
    begun.wait_for(DONE)
    begun.kill()
    shown = subprocess.run(
        [sys.executable, "-m", "pgdyno", "show", "--format", "json", begun.path],
        capture_output=True,
        check=True,
    )
    told = json.loads(shown.stdout)
    jsonschema.validate(told, UNFINISHED)
    assert told["status"] == "interrupted"
    assert told["error"]["code"] == "interrupted"
    assert told["ledger"]["done"] > 0


@pytest.mark.long
def test_a_price_list_whose_server_dies_has_no_verdict(
    begin: Begin, script: Callable[[str], str]
) -> None:
    """What was measured until then is kept, and nothing is left running."""
    paced = script("insert into pgbench_history (tid) values (1);\n\\sleep 20 ms\n")
    begun = begin(
        "price", "-c", "2", "-f", paced, "--ladder", "fsync-off", "--cuts", "0", "--budget", "60"
    )
    begun.wait_for("select count(*) from slice where trial_id > 1 and ended_ms is not null")
    postmaster = RunFile(begun.path).run.server["postmaster_pid"]
    os.kill(postmaster, signal.SIGKILL)
    result, err = begun.end(2)
    told = unfinished(begun, result, err)
    assert told["error"]["code"] == "server-gone"
    assert "SIGKILL" in told["error"]["message"]
    assert IncidentCause.ABSENCE in causes(begun)
    assert told["so_far"]["verdict"] == f"no verdict: {told['error']['message']}"
    assert not told["so_far"]["trustworthy"]
    assert [trial["kind"] for trial in told["trials"]] == ["noise", "price"]
    assert not Path(f"/proc/{postmaster}").exists()


STORY = """
name = "fails"
server = { version = 18 }
workload = { script = [{ file = "own.sql", weight = 1 }] }
clients = [{ count = 2 }]

[[story]]
title = "Nothing succeeds"
CHAPTER
"""


@pytest.mark.long
def test_a_chapter_in_which_nothing_succeeds_ends_with_2(
    tmp_path: Path, begin: Begin, script: Callable[[str], str]
) -> None:
    script("\\sleep 20 ms\nselect 1 / 0;\n")
    chapter = 'settings = { work_mem = "8MB" }\nbudget = "10s"'
    (tmp_path / "story.toml").write_text(STORY.replace("CHAPTER", chapter))
    result, err = begin("story", "story.toml").end(2)
    jsonschema.validate(result, UNFINISHED)
    assert (result["command"], result["verdict"]) == ("story", None)
    assert result["so_far"]["chapters"] == []
    assert result["failures"]["sqlstate"] == "22012"
    assert error_of(err).startswith("error: no transaction succeeds: ")


def test_a_drilled_chapter_in_which_nothing_could_be_lost_is_not_trusted(
    tmp_path: Path, begin: Begin, script: Callable[[str], str]
) -> None:
    script("\\sleep 20 ms\ninsert into pgbench_history (tid) values (1 / 0);\n")
    chapter = 'fault = "kill"\ncuts = 1\nexpect = "clean"'
    (tmp_path / "story.toml").write_text(STORY.replace("CHAPTER", chapter))
    result, err = begin("story", "story.toml").end(4)
    (told,) = result["chapters"]
    assert told["distrust"][0].startswith("no transaction was acknowledged before a fault")
    assert "22012" in err
