"""``disk-full``: the disk of the WAL, or of the data, fills up under load.

Without space for WAL a server goes down with a PANIC; without space for data, statements fail with
SQLSTATE 53100 and the server continues. Neither may lose acknowledged commits. Both disks are small
disks that the drill creates and fills with a ballast file, so no other disk fills up.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, processes
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import DrillOptions
from pgdyno.errors import SetupError, UsageError
from pgdyno.numbers import size
from pgdyno.record.cut import Cut, Facts, Proof
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.safefiles import as_server_account_in, new_plain
from pgdyno.spec import Spec, spec_from_fields

_WAL, _DATA = "wal", "data"
_NO_SPACE = "No space left on device"
_SIZES_MB = {_DATA: (400, 25), _WAL: (512, 20)}
"""Space for an empty cluster and its load, and for each unit of pgbench's scale."""
_FREE_KB = {_DATA: (0, 256), _WAL: (1024, 12 * 1024)}
"""Minimum and maximum of free space. A WAL segment has 16 MB, so there is no space for one."""
_SETTINGS = {
    # Otherwise the server restarts while its disk is still full.
    "restart_after_crash": "off",
    # Otherwise it continues for long with recycled segments.
    "wal_recycle": "off",
    "min_wal_size": "32MB",
}
_STEP_BYTES_MIN = 4096
_FULL_S_MAX = 60.0
_POLL_S = 0.02
_AFTERWARDS_S = 0.3
_PANIC_S_MAX = 10.0
"""Time limit for the processes of a server to end after a PANIC."""
_DRAIN_MS = 2_000


def _adapt(spec: Spec, _options: DrillOptions) -> Spec:
    """Limit the size of both disks, except those that the spec limits itself."""
    fields = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    wal = spec.disk.wal_plan
    if spec.disk.data_plan.kind == "plain":
        fields["disk"]["data"] = _tmpfs(_DATA, spec)
    if wal is None or wal.kind == "plain":
        fields["disk"]["wal"] = _tmpfs(_WAL, spec)
    fields["server"]["settings"] = {**_SETTINGS, **spec.server.settings}
    return spec_from_fields(fields)


def _tmpfs(role: str, spec: Spec) -> str:
    base_mb, each_mb = _SIZES_MB[role]
    return f"tmpfs:{base_mb + each_mb * spec.workload.scale}MB"


def _check(spec: Spec, _options: DrillOptions) -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "disk-full fills disks that it mounts, and only root may mount them",
            code="not-root",
            hint="run pgdyno as root, or choose a fault that needs no root, such as kill",
        )
    for role, plan in ((_DATA, spec.disk.data_plan), (_WAL, spec.disk.wal_plan)):
        if plan is not None and plan.path is not None:
            raise UsageError(
                f"disk.{role}: disk-full would fill {plan.path}, which pgdyno did not create",
                code="disk-not-ours",
                hint="omit it, or use a tmpfs or a slow disk",
            )


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    for number, rng, seed in drill.plan():
        variant = drill.options.variant or (_WAL if number % 2 else _DATA)
        drill.load_until_fault(rng)
        log = NewLog(drill.cluster)
        directory = drill.cluster.wal_dir if variant == _WAL else drill.cluster.data_dir
        with _ballast(drill, directory, _bytes_left_free(variant, rng)) as free_bytes:
            complaint = _wait_until_full(drill, log, variant)
            cut_ns = time.monotonic_ns()
            acks = drill.end_load(_DRAIN_MS if variant == _DATA else 0)
            full = _FullDisk(free_bytes, complaint, _processes_left(drill, log))
        drill.cluster.stop()
        drill.look_for_kills()
        control = drill.cluster.control_data()
        verified = drill.verify(acks, cut_ns)
        proof = _proof(variant, full, control, log)
        yield drill.cut(number, seed, cut_ns, proof, verified, variant=variant)


def _bytes_left_free(variant: str, rng: random.Random) -> int:
    return rng.randint(*_FREE_KB[variant]) * 1024


class _FullDisk(Struct, frozen=True):
    """The state of the server while the disk was full."""

    free_bytes: int
    """Free space after the disk was filled."""
    complaint: str
    """The server's log message about it; '' if none."""
    processes: int
    """Number of the server's processes afterwards."""


@contextmanager
def _ballast(drill: LoadedServer, directory: Path, left_bytes: int) -> Iterator[int]:
    """Fill the disk of ``directory`` except ``left_bytes`` within the block, unless it is a sham.

    Yields the free space in bytes.
    """
    path = directory.parent / "ballast"
    try:
        if not drill.options.sham:
            _fill(path, left_bytes)
        yield _free_bytes(directory)
    finally:
        with as_server_account_in(path.parent):
            path.unlink(missing_ok=True)


def _fill(path: Path, left_bytes: int) -> None:
    """Create a file that leaves ``left_bytes`` free, while others write to the disk as well."""
    size = 0
    with new_plain(path) as file:
        step = excess = _free_bytes(path.parent) - left_bytes
        while excess > 0 and step >= _STEP_BYTES_MIN:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError as problem:
                if problem.errno != errno.ENOSPC:
                    raise
                step //= 2  # The server has used the space meanwhile.
            excess = _free_bytes(path.parent) - left_bytes
            step = min(step, excess)


def _free_bytes(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def _wait_until_full(drill: LoadedServer, log: NewLog, variant: str) -> str:
    """Let the load run until the server logs that the disk is full, and return the message."""
    deadline = time.monotonic() + (0.0 if drill.options.sham else _FULL_S_MAX)
    complaint, running = "", True
    while not complaint and running and time.monotonic() < deadline:
        drill.session.wait(_POLL_S)
        running = drill.cluster.running  # Before the log: a server that has ended logs no more.
        complaint = log.line_with(_NO_SPACE)
    if variant == _DATA:
        drill.session.wait(_AFTERWARDS_S)
    return complaint


def _processes_left(drill: LoadedServer, log: NewLog) -> int:
    """Return the number of processes; those of a server after a PANIC take a moment to end."""
    panicked = bool(log.line_with("PANIC:"))
    deadline = time.monotonic() + (_PANIC_S_MAX if panicked else _AFTERWARDS_S)
    while (left := len(processes(drill.cluster))) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left


def _proof(variant: str, full: _FullDisk, control: ControlData, log: NewLog) -> Proof:
    panic = log.line_with("PANIC:")
    facts: Facts = {
        "free_bytes": full.free_bytes,
        "log": [line for line in (panic, full.complaint) if line],
        "processes_left": full.processes,
        "control_file": control.state,
    }
    free = size(full.free_bytes)
    disk = "WAL" if variant == _WAL else "data"
    if not full.complaint:
        return Proof(
            happened=False,
            sentence=f"the disk of the {disk} did not fill up: {free} were free",
            facts=facts,
        )
    cause = f"with {free} free on the disk of the {disk}"
    if variant == _DATA:
        server = "the server continued" if full.processes else "the server went down"
        return Proof(
            happened=True,
            sentence=f"{cause} statements failed: {full.complaint}; {server}",
            facts=facts,
        )
    went_down = bool(panic) and not full.processes and control.in_production
    how = "went down" if went_down else "did not go down"
    return Proof(
        happened=went_down,
        sentence=f"{cause} the server {how}: {panic or full.complaint}",
        facts=facts,
    )


FAULT = Fault(
    name="disk-full",
    summary="the disk of the WAL, or of the data, is full",
    adapt=_adapt,
    check=_check,
    cuts=_cuts,
    variants=(_WAL, _DATA),
    ends_processes=False,
)
