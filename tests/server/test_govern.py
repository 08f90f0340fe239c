"""``pgdyno govern`` on real servers: loaders, daemons that are killed, databases that go away.

Marks are set close above the server's present age, so that some thousand transaction IDs reach
them.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from standby_signal import as_standby

from benches import govern as bench
from patience import wait_until
from pgdyno.errors import SetupError, ThresholdError
from pgdyno.govern import Governor
from pgdyno.govern.daemon import GovernRequest, decide_once
from pgdyno.govern.deciding import AgeMarks
from pgdyno.results import schemas
from pgdyno.server import Cluster, Installation
from pgdyno.server.connecting.exclusive_use import GOVERNOR_KEY
from pgdyno.server.local.account import run_as, server_account
from pgdyno.workload.cleanup import clean_up, plan_cleanup

pytestmark = pytest.mark.server

NEAR = 3000
"""Distance of the marks from each other, and of the low one from the age, in IDs."""
PAGE = 32_768
"""Transaction IDs on a page of the commit log."""


@pytest.fixture(scope="module")
def cluster18(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """A server whose databases are all vacuumed by these tests alone."""
    with Cluster.create(installation_of(18), {"autovacuum": "off"}) as made:
        yield made


@pytest.fixture(scope="module")
def cluster15(installation_of: Callable[[int], Installation]) -> Iterator[Cluster]:
    """One of version 15."""
    with Cluster.create(installation_of(15), {"autovacuum": "off"}) as made:
        yield made


@pytest.fixture(params=["cluster18", "cluster15"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of them in turn."""
    made: Cluster = request.getfixturevalue(request.param)
    return made


def text_of(cluster: Cluster, **more: Any) -> str:
    values = {**cluster.conninfo.kwargs(), **more}
    values.pop("application_name", None)
    return psycopg.conninfo.make_conninfo("", **values)


def connected(cluster: Cluster, **more: Any) -> psycopg.Connection:
    return psycopg.connect(text_of(cluster, **more), autocommit=True)


def age_of(cluster: Cluster) -> int:
    with connected(cluster) as conn:
        (age,) = conn.execute("select max(age(datfrozenxid)) from pg_database").fetchone() or (0,)
    return int(age)


def burn(cluster: Cluster, count: int) -> None:
    """Assign transaction IDs."""
    with connected(cluster) as conn:
        conn.execute("set synchronous_commit = off")
        conn.execute(
            f"do $$ begin for i in 1..{count} loop perform pg_current_xact_id(); commit;"
            " end loop; end $$".encode()
        )


def freeze_all(cluster: Cluster) -> None:
    with connected(cluster) as conn:
        conn.execute("update pg_database set datallowconn = true")
        names = [name for (name,) in conn.execute("select datname from pg_database")]
    for name in names:
        with connected(cluster, dbname=name) as conn:
            conn.execute("vacuum (freeze)")


def marks_near(cluster: Cluster) -> tuple[str, ...]:
    freeze_all(cluster)
    low = age_of(cluster) + NEAR
    return ("--low", str(low), "--high", str(low + NEAR))


@dataclass
class Daemon:
    """A governor as a process, and what it says."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        wait_until(lambda: any("loaders ask" in line for line in self.said), "it listens")
        line = next(line for line in self.said if "loaders ask" in line)
        return line.rpartition(" ")[2].strip()

    def decision(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/decision") as answer:
            return dict(json.load(answer))

    def wait_for(self, decision: str, *, known: bool = True) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def reached() -> bool:
            found.append(self.decision())
            return (found[-1]["decision"], found[-1]["known"]) == (decision, known)

        wait_until(reached, f"it decides {decision}")
        return found[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


_SOON_TOO_OLD = """
from pgdyno.__main__ import main
from pgdyno.govern import daemon
daemon.VALID_S = 2.0
main()
"""


@contextmanager
def governing(
    cluster: Cluster, *options: str, program: tuple[str, ...] = ("-m", "pgdyno"), **conninfo: Any
) -> Iterator[Daemon]:
    words = ["govern", text_of(cluster, **conninfo), "--listen", "0", "--interval", "100ms"]
    process = subprocess.Popen(
        [sys.executable, *program, *words, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    daemon = Daemon(process)

    def read() -> None:
        assert process.stdout is not None
        daemon.said.extend(iter(process.stdout.readline, ""))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield daemon
    finally:
        process.terminate()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


def known(governor: Governor) -> bool:
    return governor.decision().known


def sql(cluster: Cluster, text: str) -> Any:
    with connected(cluster) as conn:
        row = conn.execute(text.encode()).fetchone()
    return None if row is None else row[0]


VIEW = "select decision from pgdyno_governor"


def test_loaders_slow_down_pause_and_wait_for_the_low_mark(cluster18: Cluster) -> None:
    marks = marks_near(cluster18)
    with governing(cluster18, *marks, "--sql", "public") as daemon:
        jsonschema.validate(daemon.wait_for("go"), schemas()["govern"])
        with Governor(daemon.url) as governor:
            assert governor.wait().decision == "go"
            burn(cluster18, NEAR + NEAR // 3)
            slow = daemon.wait_for("slow")
            assert slow["burn"]["xids_s"] > 0
            wait_until(lambda: daemon.decision()["share"] > 0.5, "the burst is over")
            assert daemon.decision()["decision"] == "slow"
            burn(cluster18, NEAR)
            assert daemon.wait_for("pause")["pause"]["until_age"] == int(marks[1])
            wait_until(lambda: governor.decision().decision == "pause", "the loader hears of it")
            assert not governor.wait(timeout_s=0.01).go
            wait_until(lambda: sql(cluster18, VIEW) == "pause", "SQL too")
            freeze_all(cluster18)
            daemon.wait_for("go")
            assert governor.wait().decision == "go"
            wait_until(lambda: sql(cluster18, VIEW) == "go", "SQL too")
    assert daemon.process.returncode == 0, "SIGTERM is its usual end"
    assert sql(cluster18, "select to_regclass('pgdyno_governor')") is None, "nothing is left"


def test_nobody_goes_on_by_the_word_of_a_governor_that_was_killed(cluster18: Cluster) -> None:
    with (
        governing(cluster18, *marks_near(cluster18), "--sql", "public") as daemon,
        Governor(daemon.url) as governor,
        Governor(daemon.url, when_unknown="go") as reckless,
    ):
        assert governor.wait().known
        wait_until(lambda: sql(cluster18, VIEW) == "go", "the row is written")
        wait_until(lambda: known(reckless), "the other one listens too")
        daemon.kill()
        wait_until(lambda: not known(governor), "the stream has ended")
        assert governor.decision().decision == "pause"
        wait_until(lambda: not known(reckless), "the stream has ended")
        assert reckless.wait().go, "that is its policy"
        wait_until(lambda: sql(cluster18, VIEW) == "pause", "the lock went with the session")
        assert "no governor" in sql(cluster18, "select why from pgdyno_governor")
    plan = plan_cleanup(cluster18.conninfo)
    clean_up(cluster18.conninfo, [], plan, note=lambda text: None)
    assert sql(cluster18, "select to_regclass('pgdyno_governor')") is None


def test_a_pause_outlives_the_governor(cluster18: Cluster) -> None:
    marks = marks_near(cluster18)
    with governing(cluster18, *marks) as daemon:
        burn(cluster18, 2 * NEAR)
        daemon.wait_for("pause")
        daemon.kill()
    freeze_all(cluster18)
    burn(cluster18, NEAR + NEAR // 3)
    with governing(cluster18, *marks) as daemon:
        daemon.wait_for("pause")
        freeze_all(cluster18)
        daemon.wait_for("go")


def test_a_second_governor_is_refused_with_who_holds_the_server(cluster18: Cluster) -> None:
    with governing(cluster18) as first:
        first.wait_for("go")
        with governing(cluster18, dbname="postgres") as second:
            assert second.process.wait() == 1
            wait_until(lambda: any("hint" in line for line in second.said), "it says why")
        assert f"process {first.process.pid}" in "".join(second.said)


def test_a_database_that_is_restarted_is_unknown_until_it_answers(cluster18: Cluster) -> None:
    with (
        governing(cluster18, *marks_near(cluster18), "--sql", "public") as daemon,
        Governor(daemon.url, when_unknown="go") as governor,  # The daemon's word comes first.
    ):
        wait_until(lambda: known(governor), "it is asked")
        cluster18.stop("immediate")
        unknown = daemon.wait_for("pause", known=False)
        assert unknown["worst"] is None
        wait_until(lambda: not known(governor), "the loader hears of it")
        assert not governor.decision().go
        cluster18.start()
        daemon.wait_for("go")
        wait_until(lambda: sql(cluster18, VIEW) == "go", "the row is there again")


def test_a_stopped_governor_is_believed_until_its_word_is_too_old(cluster18: Cluster) -> None:
    program = ("-c", _SOON_TOO_OLD)
    with (
        governing(cluster18, "--sql", "public", program=program) as daemon,
        Governor(daemon.url) as governor,
    ):
        assert governor.wait().known
        wait_until(lambda: sql(cluster18, VIEW) == "go", "the row is written")
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: not known(governor), "it is too old")
            wait_until(lambda: sql(cluster18, VIEW) == "pause", "it is too old")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        wait_until(lambda: known(governor), "it is heard again")


def test_a_row_from_the_future_says_pause(cluster18: Cluster) -> None:
    """The database's clock has jumped back since it was written."""
    with governing(cluster18, "--sql", "public") as daemon:
        daemon.wait_for("go")
        wait_until(lambda: sql(cluster18, VIEW) == "go", "the row is written")
        with connected(cluster18) as conn, conn.transaction():
            conn.execute("update pgdyno_governor_row set read_at = read_at + interval '1 hour'")
            row = conn.execute("select decision, why from pgdyno_governor").fetchone()
        assert row is not None
        assert (row[0], "clock has jumped" in row[1]) == ("pause", True)


def test_a_shell_loop_waits_for_its_turn(cluster18: Cluster) -> None:
    with governing(cluster18, *marks_near(cluster18)) as daemon:
        daemon.wait_for("go")
        with urllib.request.urlopen(f"{daemon.url}/wait?worked_s=5") as answer:
            assert json.load(answer)["decision"] == "go"
        burn(cluster18, 2 * NEAR)
        daemon.wait_for("pause")
        for path, status in (("wait?max_s=0.1", 503), ("wait?worked_s=x", 400), ("x", 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{daemon.url}/{path}")
            assert refused.value.code == status
            refused.value.close()


def test_a_governor_vacuums_while_loaders_pause(cluster: Cluster) -> None:
    marks = marks_near(cluster)
    with connected(cluster) as conn:
        conn.execute("create table loaded (n int, t text); insert into loaded values (1, 'x')")
    with governing(cluster, *marks, "--vacuum") as daemon:
        daemon.wait_for("go")
        burn(cluster, 2 * NEAR)
        daemon.wait_for("pause")
        done = daemon.wait_for("go")
        assert done["vacuum"]["done"] > 0, done
        assert age_of(cluster) < int(marks[1])
    with connected(cluster) as conn:
        conn.execute("drop table loaded")


def test_a_table_in_use_is_vacuumed_once_it_is_free(cluster18: Cluster) -> None:
    marks = marks_near(cluster18)
    with connected(cluster18) as conn:
        conn.execute("create table busy_table (n int)")
        with governing(cluster18, *marks, "--vacuum") as daemon:
            daemon.wait_for("go")
            conn.execute("begin; lock table busy_table in share update exclusive mode")
            burn(cluster18, 2 * NEAR)
            wait_until(lambda: daemon.decision()["vacuum"]["done"] > 10, "others are vacuumed")
            assert daemon.decision()["decision"] == "pause"
            conn.execute("commit")
            daemon.wait_for("go")
        conn.execute("drop table busy_table")


def others_are_young(cluster: Cluster, low: str) -> bool:
    """Return whether no tables are too old but shared ones, and those of the pin's database."""
    old = (
        f"select count(*) from pg_class where age(relfrozenxid) >= {low} and not relisshared"
        " and relkind in ('r', 't', 'm')"
    )
    for name in ("postgres", "template1"):
        with connected(cluster, dbname=name) as conn:
            if conn.execute(old.encode()).fetchone() != (0,):
                return False
    return True


MOST_VACUUMS = """
select max(vacuum_count) from pg_stat_all_tables join pg_class on oid = relid where not relisshared
"""


@pytest.mark.long
def test_what_a_pin_keeps_old_is_not_vacuumed_again_and_again(cluster18: Cluster) -> None:
    marks = marks_near(cluster18)
    with connected(cluster18) as conn, connected(cluster18) as pinning:
        conn.execute("drop table if exists pinned; create table pinned as select 1 as n")
        conn.execute("select pg_stat_reset()")
        pinning.execute("begin; select pg_current_xact_id()")
        burn(cluster18, 2 * NEAR + NEAR // 3)
        conn.execute("update pg_database set datallowconn = false where datname = 'template0'")
        with governing(cluster18, *marks, "--vacuum") as daemon:
            daemon.wait_for("pause")
            wait_until(lambda: daemon.decision()["vacuum"]["held"] > 50, "they are left out")
            wait_until(
                lambda: others_are_young(cluster18, marks[1]),
                "those of other databases are vacuumed",
            )
            found = daemon.decision()
            assert "left out of --vacuum" in found["why"]
            assert found["vacuum"]["failed"] == []
            wait_until(lambda: daemon.decision()["pause"]["for_s"] > 1, "it looks on")
            # A table is left alone for 10 s after a vacuum in vain, then for 20 s, and so on.
            most = sql(cluster18, MOST_VACUUMS)
            assert most <= 2 + math.log2(1 + daemon.decision()["pause"]["for_s"] / 10)
            conn.execute("update pg_database set datallowconn = true where datname = 'template0'")
            pinning.execute("commit")
            assert daemon.wait_for("go")["vacuum"]["held"] == 0
        conn.execute("drop table pinned")


def test_a_role_without_rights_is_told_what_would_allow_it(cluster: Cluster) -> None:
    with connected(cluster) as conn:
        conn.execute("drop role if exists loader; create role loader login")
    found = decide_once(GovernRequest(text_of(cluster, user="loader")), print)
    assert found.decision == "go"
    said = " ".join(found.not_known)
    assert "GRANT pg_monitor TO loader" in said
    assert "pg_ls_dir" in said
    for options, about in (
        (("--vacuum",), "may vacuum none of the tables"),
        (("--sql", "pg_catalog"), "permission denied"),
        (("--listen", "127.0.0.1:1"), "127.0.0.1:1"),
    ):
        if options[0] == "--listen" and os.geteuid() == 0:
            continue  # Root may listen on any port.
        with governing(cluster, *options, user="loader") as daemon:
            assert daemon.process.wait() == 1
            wait_until(lambda: any("hint" in line for line in daemon.said), "it says why")
        assert about in "".join(daemon.said)


def test_a_schema_may_have_any_name(cluster: Cluster) -> None:
    name = 's "x% %s {view} ü'
    quoted = psycopg.sql.Identifier(name).as_string(None)
    with connected(cluster) as conn:
        conn.execute(f"create schema {quoted}".encode())
        with governing(cluster, "--sql", name) as daemon:
            daemon.wait_for("go")
            view = f"select go from {quoted}.pgdyno_governor"
            wait_until(lambda: sql(cluster, view) is True, "the row is written")
            daemon.kill()
        plan = plan_cleanup(cluster.conninfo)
        clean_up(cluster.conninfo, [], plan, note=lambda text: None)
        conn.execute(f"drop schema {quoted}".encode())  # It is empty.


def test_the_lock_of_anybody_else_makes_nobody_go_on(cluster: Cluster) -> None:
    with connected(cluster) as conn:
        conn.execute("drop role if exists reader; create role reader login")
    with (
        governing(cluster, "--sql", "public") as daemon,
        connected(cluster, user="reader") as other,
    ):
        other.execute("set application_name = 'psql'")
        daemon.wait_for("go")
        said = "select decision, why, go from pgdyno_governor"
        wait_until(lambda: (other.execute(said).fetchone() or (0,))[0] == "go", "it is written")
        daemon.kill()
        other.execute(f"select pg_advisory_lock({GOVERNOR_KEY})".encode())  # Waits for its end.
        row = other.execute(said).fetchone()
        assert row == snapshot(("pause", "no governor is at work", False))
        with governing(cluster) as refused:
            assert refused.process.wait() == 1
        message = "".join(refused.said)
        for about in (
            'application_name "psql"',
            "as reader",
            f"terminate_backend({other.info.backend_pid})",
        ):
            assert about in message
        assert "another governor" not in message
    with connected(cluster) as conn:
        plan = plan_cleanup(cluster.conninfo)
        clean_up(cluster.conninfo, [], plan, note=lambda text: None)
        conn.execute("drop role reader")


def test_what_is_there_already_under_the_name_of_the_view_is_left_alone(cluster18: Cluster) -> None:
    with connected(cluster18) as conn:
        conn.execute("create schema busy; create table busy.pgdyno_governor (n int)")
        with governing(cluster18, "--sql", "busy") as daemon:
            assert daemon.process.wait() == 1
        assert "busy.pgdyno_governor" in "".join(daemon.said)
        assert conn.execute("select count(*) from busy.pgdyno_governor").fetchone() == (0,)
        conn.execute("drop schema busy cascade")


def test_an_address_in_use_is_refused(cluster18: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with governing(cluster18, "--listen", address) as refused:
            assert refused.process.wait() == 1
        assert f"--listen {address}" in "".join(refused.said)


def test_a_loader_may_fork(cluster18: Cluster) -> None:
    with governing(cluster18) as daemon, Governor(daemon.url) as governor:
        assert governor.wait().known
        child = os.fork()
        if child == 0:
            os._exit(0 if governor.wait(timeout_s=60).known else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_slot_that_pins_a_high_age_is_named_and_autovacuum_ends_the_pause(
    new_cluster: Callable[..., Cluster],
) -> None:
    """A real age of 1.6 billion, by a jump of the transaction counter."""
    cluster = new_cluster(
        18,
        wal_level="logical",
        autovacuum_naptime="1s",
        autovacuum_freeze_max_age="2000000000",
    )
    with connected(cluster) as conn:
        conn.execute("create table kept as select generate_series(1, 1000) as n")
        conn.execute("select pg_create_logical_replication_slot('old', 'pgoutput')")
    cluster.stop()
    there = PAGE * (1_600_000_000 // PAGE)
    resetwal = cluster.installation.binary("pg_resetwal")
    done = run_as(server_account(), [resetwal, "-x", str(there), "-D", cluster.data_dir])
    assert done.returncode == 0, done.stderr
    cluster.start()
    found = decide_once(GovernRequest(text_of(cluster)), print)
    assert (found.decision, [pin.name for pin in found.pins if pin.blocks]) == ("pause", ["old"])
    assert any("autovacuum_freeze_max_age" in each for each in found.warnings)
    cluster.stop()
    cluster.configure({"autovacuum_freeze_max_age": "200000000"})
    cluster.start()
    with governing(cluster) as daemon:
        daemon.wait_for("pause")
        sql(cluster, "select pg_drop_replication_slot('old')")
        found_now = daemon.wait_for("go")
        assert found_now["pins"] == []
    assert sql(cluster, "select count(*) from kept") == 1000


class Hasty:
    """The module time with short pauses."""

    monotonic = time.monotonic
    perf_counter = time.perf_counter

    @staticmethod
    def sleep(_seconds: float) -> None:
        time.sleep(0.05)


def test_one_decision_ends_with_a_status(
    cluster18: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    burn(cluster18, 100)
    low = GovernRequest(text_of(cluster18), marks=AgeMarks(10, 20))
    assert decide_once(low, print).decision == "pause"
    assert decide_once(replace(low, marks=AgeMarks()), print).decision == "go"
    with pytest.raises(ThresholdError, match="should pause"):
        _once(low)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("pause: the oldest transaction ID of database ")
    assert sum(line.startswith("database ") for line in said) >= 3
    assert any(line.startswith(("table pg_catalog.", "TOAST table of ")) for line in said)
    assert "multixact members: 0 % of their space" in said
    warnings = [line for line in said if line.startswith("warning: ")]
    assert said[-len(warnings) :] == warnings, "they are last"
    assert any("autovacuum_freeze_max_age is" in line for line in warnings)


def _once(request: GovernRequest) -> None:
    from pgdyno.cli.govern_command import _print_once

    _print_once(decide_once(request, print), "text", quiet=False)


def test_a_standby_is_refused(cluster18: Cluster) -> None:
    with as_standby(cluster18), pytest.raises(SetupError, match="is a standby"):
        decide_once(GovernRequest(text_of(cluster18)), print)


@pytest.mark.long
def test_the_comparison_with_the_published_behaviour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is measured here does not matter, and so neither does for how long.
    monkeypatch.setattr(bench, "time", Hasty)
    small = ["--band", "2000", "--vacuum", "0.1", "--idle", "0.1", "--after", "0.1"]
    assert bench.main(small) == 0
    said = capsys.readouterr().out
    assert "published: " in said
    assert "pgdyno: " in said
    assert "of one core" in said
