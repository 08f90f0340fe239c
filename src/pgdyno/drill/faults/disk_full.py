"""``disk-full``: the disk of the WAL, or of the data, fills up under load.

Without room for WAL a server goes down with a PANIC; without room for data, statements fail with
SQLSTATE 53100 and the server lives on. Neither may lose what was acknowledged. Both disks are
limited ones of this drill's own, and are filled by a ballast file, so that no other disk is.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.drill._drill import Drill
from pgdyno.drill._evidence import Said, processes
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import Cut, DrillOptions, Proof
from pgdyno.errors import SetupError, UsageError
from pgdyno.server.local.controldata import ControlData
from pgdyno.server.local.safefiles import as_server_account_in, new_plain
from pgdyno.spec import Spec, spec_from_fields

_WAL, _DATA = "wal", "data"
_NO_SPACE = "No space left on device"
_SIZES_MB = {_DATA: (400, 25), _WAL: (512, 20)}
"""Room for an empty cluster and its load, and for each unit of pgbench's scale."""
_LEFT_KB = {_DATA: (0, 256), _WAL: (1024, 12 * 1024)}
"""Fewest and most kilobytes left free. A segment of WAL is 16 MB, so there is no room for one."""
_SETTINGS = {
    # Else the server starts itself again while its disk is still full.
    "restart_after_crash": "off",
    # Else it goes on for long in segments that it has from before.
    "wal_recycle": "off",
    "min_wal_size": "32MB",
}
_STEP_BYTES_MIN = 4096
_FULL_S_MAX = 60.0
_LOOK_S = 0.02
_AFTERWARDS_S = 0.3
_DRAIN_MS = 2_000


def _adapt(spec: Spec, _options: DrillOptions) -> Spec:
    """Both disks limited; what the spec has limited itself stays as it is."""
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
            "disk-full fills disks of its own, and only root may mount them",
            code="not-root",
            hint="run pgdyno as root, or choose another fault; kill needs no root",
        )
    for role, plan in ((_DATA, spec.disk.data_plan), (_WAL, spec.disk.wal_plan)):
        if plan is not None and plan.path is not None:
            raise UsageError(
                f"disk.{role}: disk-full would fill {plan.path}, which is not pgdyno's own",
                code="disk-not-ours",
                hint="leave it out, or name a tmpfs or a slow disk",
            )


def _cuts(drill: Drill) -> Iterator[Cut]:
    wanted = drill.options.variant
    for number, rng, seed in drill.plan():
        variant = wanted or (_WAL if number % 2 else _DATA)
        drill.load_until_fault(rng)
        said = Said(drill.cluster)
        folder = drill.cluster.wal_dir if variant == _WAL else drill.cluster.data_dir
        with _ballast(drill, folder, _left_bytes(variant, rng)) as full:
            seen = _wait_until_full(drill, said, variant, full)
            cut_ns = time.monotonic_ns()
            acks = drill.end_load(_DRAIN_MS if variant == _DATA else 0)
            seen = _looked_at(drill, seen)
        drill.cluster.stop()
        drill.look_for_kills()
        control = drill.cluster.control_data()
        verified = drill.verify(acks, cut_ns)
        proof = _proof(variant, seen, control, said)
        yield drill.cut(number, seed, cut_ns, proof, verified, variant=variant)


def _left_bytes(variant: str, rng: random.Random) -> int:
    return rng.randint(*_LEFT_KB[variant]) * 1024


@dataclass(frozen=True)
class _Seen:
    """What was there while the disk was full."""

    free_bytes: int
    """When it was filled."""
    complaint: str = ""
    """What the server said of it."""
    processes: int = 0
    """Of the server, afterwards."""


@contextmanager
def _ballast(drill: Drill, folder: Path, left_bytes: int) -> Iterator[_Seen]:
    """Within the block, a file leaves so much room on the disk of ``folder``; a sham has none."""
    path = folder.parent / "ballast"
    try:
        if not drill.options.sham:
            _fill(path, left_bytes)
        yield _Seen(_free_bytes(folder))
    finally:
        with as_server_account_in(path.parent):
            path.unlink(missing_ok=True)


def _fill(path: Path, left_bytes: int) -> None:
    """Make a file that leaves so much room beside it, while others write there too."""
    size = 0
    with new_plain(path) as file:
        step = room = _free_bytes(path.parent) - left_bytes
        while room > 0 and step >= _STEP_BYTES_MIN:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError as problem:
                if problem.errno != errno.ENOSPC:
                    raise
                step //= 2  # somebody else was quicker
            room = _free_bytes(path.parent) - left_bytes
            step = min(step, room)


def _free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _wait_until_full(drill: Drill, said: Said, variant: str, seen: _Seen) -> _Seen:
    """Let the load run until the server complains, and a little more if it lives on."""
    deadline = time.monotonic() + (0.0 if drill.options.sham else _FULL_S_MAX)
    complaint, lives = "", True
    while not complaint and lives and time.monotonic() < deadline:
        drill.session.wait(_LOOK_S)
        lives = drill.cluster.running  # Asked first: one that has ended has said all it will.
        complaint = said.line_with(_NO_SPACE)
    if variant == _DATA:
        drill.session.wait(_AFTERWARDS_S)
    return _Seen(seen.free_bytes, complaint)


def _looked_at(drill: Drill, seen: _Seen) -> _Seen:
    """The processes left; those of a server that has had a PANIC take a moment to go."""
    deadline = time.monotonic() + _AFTERWARDS_S
    while (left := len(processes(drill.cluster))) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return _Seen(seen.free_bytes, seen.complaint, left)


def _proof(variant: str, seen: _Seen, control: ControlData, said: Said) -> Proof:
    panic = said.line_with("PANIC:")
    facts = {
        "free_bytes": seen.free_bytes,
        "log": [line for line in (panic, seen.complaint) if line],
        "processes_left": seen.processes,
        "control_file": control.state,
    }
    left = f"{seen.free_bytes / 1024:,.0f} kB"
    disk = "WAL's" if variant == _WAL else "data's"
    if not seen.complaint:
        return Proof(False, f"the {disk} disk did not fill up: {left} were free", facts)
    if variant == _DATA:
        sentence = f"with {left} left on the data's disk, statements failed: {seen.complaint}"
        lives = "the server lived on" if seen.processes else "the server went down"
        return Proof(True, f"{sentence}; {lives}", facts)
    went_down = bool(panic) and not seen.processes and control.in_production
    how = "went down" if went_down else "did not go down"
    sentence = f"with {left} left on the WAL's disk the server {how}: {panic or seen.complaint}"
    return Proof(went_down, sentence, facts)


FAULT = Fault(
    name="disk-full",
    summary="the disk of the WAL, or of the data, is full",
    adapt=_adapt,
    check=_check,
    cuts=_cuts,
    variants=(_WAL, _DATA),
    ends_processes=False,
)
