"""Cores that are busy: with the load, with other programs, with a missing index, with JIT."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from exam.injectors import busy_programs
from exam.model import Cause, Cell, Proof
from exam.scene import Scene, cpu_seconds

CORES = os.cpu_count() or 1
_ROWS = ("workload.variables.rows",)


def _sessions_compute(scene: Scene, more: str, *, holds: bool) -> Proof:
    computing = scene.sessions_runnable / scene.clients
    text = f"/proc: sessions use {scene.cores_used:.2f} of {CORES} cores; {more}"
    return Proof(text, holds and computing > 0.2, computing)


def _server_cpu(scene: Scene) -> Proof:
    busy = scene.cores_used / CORES
    return _sessions_compute(scene, f"{busy:.0%} of the machine", holds=busy > 0.5)


def _other_programs(scene: Scene) -> Proof:
    """CPU time of the programs since they were started, before the server was."""
    used_s = sum(map(cpu_seconds, scene.injected["programs"]))
    since_s = max(_age_s(pid) for pid in scene.injected["programs"])
    cores = used_s / since_s
    text = f"/proc: the programs use {cores:.2f} of {CORES} cores"
    return Proof(text, cores > 0.2 * CORES, cores / CORES)


def _age_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return uptime_s - int(words[19]) / os.sysconf("SC_CLK_TCK")


def _seq_scan(scene: Scene) -> Proof:
    (plan,) = scene.query("explain (format json) select sum(total) from orders where customer = 1")[
        0
    ]
    scans = "Seq Scan" in json.dumps(plan)
    return _sessions_compute(scene, f"EXPLAIN shows a sequential scan: {scans}", holds=scans)


def _jit(scene: Scene) -> Proof:
    query = (
        "select sum(abalance + 1), avg(bid * 2) from pgbench_accounts where aid between 1 and 101"
    )
    with scene.connect() as connection:
        for _ in range(2):  # The first query of a session loads the compiler.
            rows = connection.execute(f"explain analyze {query}".encode()).fetchall()
    lines = "\n".join(row[0] for row in rows)
    compiling = re.search(r"Timing:.* Total ([\d.]+) ms", lines)
    whole = re.search(r"Execution Time: ([\d.]+) ms", lines)
    share = float(compiling[1]) / float(whole[1]) if compiling and whole else 0.0
    text = f"EXPLAIN ANALYZE: JIT takes {share:.0%} of the time of a query"
    return _sessions_compute(scene, text, holds=share > 0.5)


CELL = Cell(
    "cores",
    (
        Cause("server-cpu", ("server-cpu",), _server_cpu, scaled=_ROWS),
        Cause("other-programs", ("other-programs",), _other_programs, inject=busy_programs),
        Cause("seq-scan", ("missing-index",), _seq_scan),
        # The wheel's PostgreSQL 18 is built without JIT.
        Cause("jit", ("jit",), _jit, versions=(15,)),
    ),
)
