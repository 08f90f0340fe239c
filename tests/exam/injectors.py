"""Faults that a spec cannot express: what stands in front of the server, beside it, or below it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from exam.model import Fields
from pgdyno.disk import open_disks
from pgdyno.server import Cluster, ConnInfo, find_installation
from pgdyno.server.replication._relay import Relay
from pgdyno.spec.model import DiskSpec
from pooler_fixtures import PgBouncer


class NotProducible(Exception):
    """This machine lacks what the fault needs; the text says what."""


def server_of_our_own(fields: Fields, stack: contextlib.ExitStack) -> Cluster:
    """Start the server that the spec describes; the spec then names it as an existing one."""
    server = fields["server"]
    installation = find_installation(None, server["version"])
    disks = open_disks(DiskSpec.model_validate(fields.pop("disk", {})))
    settings = {name: str(value) for name, value in server.get("settings", {}).items()}
    cluster = Cluster.create(installation, settings, disks=disks)
    stack.enter_context(cluster)
    fields["server"] = {"kind": "existing"}
    return cluster


def _enter_through(fields: Fields, entrance: ConnInfo, cluster: Cluster) -> None:
    direct = cluster.conninfo
    os.environ["PGPASSWORD"] = entrance.password or ""
    fields["server"] |= {
        "conninfo": entrance.uri_without_password,
        "control": f"host={direct.host} port={direct.port}",
    }


def pgbouncer(pool_size_key: str) -> Any:
    """Return the injector of a PgBouncer; the spec's variable ``pool_size_key`` is its pool."""

    def inject(fields: Fields, stack: contextlib.ExitStack) -> Mapping[str, Any]:
        cluster = server_of_our_own(fields, stack)
        size = fields["workload"]["variables"][pool_size_key]
        try:
            pooler = PgBouncer(cluster, {"pool_mode": "transaction", "default_pool_size": size})
        except pytest.skip.Exception as missing:
            raise NotProducible(str(missing)) from None
        stack.callback(pooler.destroy)
        pooler.start()
        _enter_through(fields, pooler.conninfo, cluster)
        return {"cluster": cluster, "pooler": pooler}

    return inject


def slow_link(round_trip_key: str) -> Any:
    """Return the injector of a link; the variable ``round_trip_key`` is its round trip in ms."""

    def inject(fields: Fields, stack: contextlib.ExitStack) -> Mapping[str, Any]:
        cluster = server_of_our_own(fields, stack)
        tcp = cluster.conninfo_tcp
        delay_ms = float(fields["workload"]["variables"][round_trip_key]) / 2
        relay = Relay((tcp.host, tcp.port), delay_ms=delay_ms)
        stack.callback(relay.close)
        entrance = replace(tcp, port=relay.port)
        _enter_through(fields, entrance, cluster)
        return {"cluster": cluster, "entrance": entrance}

    return inject


def busy_programs(fields: Fields, stack: contextlib.ExitStack) -> Mapping[str, Any]:
    """Run programs that compute, as many as the spec's variable ``programs`` says."""
    return {"programs": start_programs(int(fields["workload"]["variables"]["programs"]), stack)}


def start_programs(count: int, stack: contextlib.ExitStack) -> list[int]:
    """Start programs that compute; return their process IDs. ``stack`` ends them."""
    burn = (
        "import time\nend = time.monotonic() + 100\n"
        "while time.monotonic() < end: sum(range(100000))"
    )
    processes = []
    for _ in range(count):
        processes.append(_start_orphan(sys.executable, "-c", burn))
        stack.callback(_kill, processes[-1])
    return processes


def _start_orphan(*command: str) -> int:
    """Start a process that does not descend from this one; return its process ID.

    The examinee is pgdyno, whose descendants are pgdyno's. Each has a session of its own, as the
    kernel may share the cores out by session.
    """
    script = 'setsid "$@" < /dev/null > /dev/null 2>&1 & echo $!'
    shell = ["sh", "-c", script, "sh", *command]
    return int(subprocess.run(shell, stdout=subprocess.PIPE, check=True).stdout)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def slow_files(fields: Fields, stack: contextlib.ExitStack) -> Mapping[str, Any]:
    """Delay reads of data files by the variable ``read_us``, and accesses to temporary files by
    ``temp_us``, in microseconds: the server runs with a library that is preloaded.

    Tables are made without the delay, which ``begin`` starts. Gives the proof ``counts``, a file of
    the library's own counters.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgdyno-exam-")))
    folder.chmod(0o755)
    library, counts = folder / "slow_reads.so", folder / "counts"
    _compile(Path(__file__).with_name("slow_reads.c"), library)
    counts.write_bytes(bytes(24))
    counts.chmod(0o666)
    variables = fields["workload"]["variables"]
    preload = {
        "LD_PRELOAD": library,
        "EXAM_READ_US": round(variables["read_us"]),
        "EXAM_TEMP_US": round(variables["temp_us"]),
        "EXAM_COUNTS": counts,
    }
    server = fields["server"]
    server["bindir"] = str(_binaries(folder, server.pop("version"), preload))
    return {"counts": counts, "begin": lambda: _begin_delays(counts)}


def _begin_delays(counts: Path) -> None:
    with counts.open("r+b") as file:
        file.seek(16)
        file.write(b"\x01")


def _compile(source: Path, library: Path) -> None:
    """Compile a C file to a shared library. Raises NotProducible without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotProducible("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)


def _binaries(folder: Path, version: int, preload: Mapping[str, object]) -> Path:
    """Return a directory of the version's binaries whose ``postgres`` runs with ``preload`` in its
    environment."""
    real = find_installation(None, version).binary("postgres").parent
    binaries = folder / "bin"
    binaries.mkdir()
    for path in real.iterdir():
        if path.name != "postgres":
            (binaries / path.name).symlink_to(path)
    words = " ".join(f"{name}={value}" for name, value in preload.items())
    wrapper = binaries / "postgres"
    wrapper.write_text(f'#!/bin/sh\n{words} exec {real}/postgres "$@"\n')
    wrapper.chmod(0o755)
    return binaries
