"""What others do beside a run is seen and told: programs on the machine, load on the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from pgdyno.facts.denied_time import other_programs_of
from pgdyno.record import RunFile
from pgdyno.record.fileformat import CORES_BUSY
from pgdyno.server import Cluster

pytestmark = pytest.mark.server


@contextmanager
def busy_loops(folder: Path, count: int) -> Iterator[None]:
    """So many processes named ``busyloop`` that do nothing but that; ten minutes at most."""
    program = folder / "busyloop"
    program.symlink_to("/bin/sh")
    command = ["timeout", "600", str(program), "-c", "while :; do :; done"]
    # Not children of this process, which plays pgdyno in no test of this file. On all cores, also
    # where the tests may only use some: what is idle elsewhere is no lack of cores.
    everywhere = partial(os.sched_setaffinity, 0, range(os.cpu_count() or 1))
    running = [subprocess.Popen(command, preexec_fn=everywhere) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.terminate()
            each.wait()


def run_here(folder: Path, *options: str, limit: str = "20%") -> tuple[int, dict[str, object]]:
    """``pgdyno run`` as a process of its own: exit status and result."""
    command = [sys.executable, "-m", "pgdyno", "run", "-q", "--format", "json", "-o", "run.db"]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env={**os.environ, "PGDYNO_MAX_OTHER_PROGRAMS": limit},
        capture_output=True,
        check=False,
        text=True,
        timeout=400,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_busy_loops_beside_a_run_are_named_and_the_run_is_not_trusted(open_dir: Path) -> None:
    """Twice as many loops as cores take at least a third of them, whatever else runs."""
    with busy_loops(open_dir, 2 * (os.cpu_count() or 1)):
        status, result = run_here(open_dir, "select-only", "-c", "2", "-s", "1", "-T", "4")
    assert status == 4
    assert result["trustworthy"] is False
    assert "busy with other programs" in str(result["distrust"])
    findings = {each["id"]: each for each in result["findings"]}  # type: ignore[attr-defined]
    assert findings["other-programs"]["status"] == "found"
    with RunFile(open_dir / "run.db") as run:
        others = other_programs_of(run, [part.id for part in run.slices()])
    # Whatever else runs here may use more than they do.
    assert others is not None
    assert next(each.cores for each in others.programs if each.name == "busyloop") > 0


THOUSAND = ("-c", "1000", "--set", "max_connections=1200")


@pytest.mark.parametrize(
    "clients", [("-c", "1"), ("-c", "100"), ("-c", "50", "-C"), THOUSAND], ids=" ".join
)
def test_what_cores_did_is_the_sum_of_what_processes_used(
    open_dir: Path, clients: tuple[str, ...]
) -> None:
    """The rest with one client is the time to wake up and to fall asleep, which is no process's."""
    status, _ = run_here(open_dir, "select-only", *clients, "-s", "10", "-T", "5")
    assert status == 0
    with RunFile(open_dir / "run.db") as run:
        measured = [part.id for part in run.slices() if part.kind != "ramp"]

        def used_ms(table: str, column: str, **where: object) -> float:
            return run.delta(table, column, measured, where=where) or 0.0

        owners = ("server", "ours", "kernel", "other")
        roles = {str(role) for role in run.series("metric_process", measured)["role"]} - {"pgdyno"}
        seen_ms = sum(used_ms("metric_program", "cpu_ms", whose=whose) for whose in owners) + sum(
            used_ms("metric_process", f"cpu_{kind}_ms", role=role)
            for role in roles
            for kind in ("user", "system")
        )
        busy_ms = used_ms("metric_program", "cpu_ms", whose="machine", program=CORES_BUSY)
    assert seen_ms == pytest.approx(busy_ms, rel=0.05 if "1" not in clients else 0.1)


def test_busy_loops_beside_a_thousand_clients_are_named(open_dir: Path) -> None:
    with busy_loops(open_dir, os.cpu_count() or 1):
        options = ("select-only", *THOUSAND, "-s", "10", "-T", "5")
        status, result = run_here(open_dir, *options)
    assert status == 4
    assert "busyloop (" in str(result["distrust"])


@contextmanager
def sessions_at_work(cluster: Cluster, count: int) -> Iterator[None]:
    """Others in the database ``postgres``, at work nearly always and in need of no CPU."""
    stopping = threading.Event()

    def work() -> None:
        values = {**cluster.conninfo.kwargs(), "dbname": "postgres", "application_name": "shop"}
        with psycopg.connect(**values, autocommit=True) as connection:
            while not stopping.is_set():
                connection.execute("select pg_sleep(0.5)")

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def test_load_of_others_on_the_server_is_named_and_not_trusted(pg: Cluster, open_dir: Path) -> None:
    to = ["-d", pg.conninfo.uri_without_password, "-R", "100", "-c", "1", "-s", "1", "-T", "4"]
    with sessions_at_work(pg, 8):
        status, result = run_here(open_dir, "select-only", *to, limit="100%")
    assert status == 4, result["distrust"]
    assert "postgres (" in str(result["distrust"])
    (open_dir / "run.db").unlink()
    status, result = run_here(open_dir, "select-only", *to, limit="100%")
    # Other reasons may come of a machine that is busy otherwise.
    assert status in (0, 4), result["distrust"]
    assert "are not this load's" not in str(result["distrust"])
    findings = {each["id"]: each for each in result["findings"]}  # type: ignore[attr-defined]
    assert findings["other-load"]["status"] == "cleared"
