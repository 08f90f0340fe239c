"""Sessions that read: from a slow disk, with too few shared_buffers, or sorts that spill."""

from __future__ import annotations

import struct

from exam.injectors import slow_files
from exam.model import Cause, Cell, Proof
from exam.scene import Scene

_READS = ("DataFileRead", "DataFilePrefetch", "AioIoCompletion", "AioIoUringExecution")


def _delayed(scene: Scene) -> tuple[int, float]:
    """Return the accesses that the injected library delayed, and the mean delay in ms."""
    accesses, slept_us = struct.unpack("QQ", scene.injected["counts"].read_bytes()[:16])
    return accesses, slept_us / accesses / 1000 if accesses else 0.0


def _reads(scene: Scene) -> Proof:
    accesses, each_ms = _delayed(scene)
    text = f"the injected library delayed {accesses:,} reads by {each_ms:.2f} ms each"
    return Proof(text, accesses > 100, scene.share(lambda seen: seen.wait in _READS))


def _spills(scene: Scene) -> Proof:
    accesses, each_ms = _delayed(scene)
    text = (
        f"the injected library delayed {accesses:,} accesses to temporary files by {each_ms:.2f} ms"
    )
    owned = scene.share(lambda seen: seen.wait.lower() in ("buffileread", "buffilewrite"))
    return Proof(text, accesses > 100, owned)


CELL = Cell(
    "reads",
    (
        Cause(
            "slow-reads",
            ("data-reads",),
            _reads,
            scaled=("workload.variables.read_us",),
            inject=slow_files,
        ),
        Cause(
            "small-buffers",
            ("small-shared-buffers",),
            _reads,
            divided=("server.settings.shared_buffers",),
            inject=slow_files,
        ),
        Cause(
            "temp-spill",
            ("temp-files", "costly-settings"),  # work_mem, with which nothing is spilled
            _spills,
            scaled=("workload.variables.temp_us",),
            inject=slow_files,
        ),
    ),
)
