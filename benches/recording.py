"""Cost of recording: a server on a recording disk compared with one on a plain loop mount.

Both disks are ext4 in a sparse file in the same directory. A flush of the plain one is a flush of
the real disk; the recording disk does not pass it on, since its log defines what is durable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from benches.engine import EngineChild, Pgdyno
from benches.sample import BenchError, Case, Contender, Sample
from benches.server import SETTINGS, BenchServer, bench_server
from pgdyno.disk import EmulatedDevice, make_image, mount_image, open_device, unmount_all
from pgdyno.errors import SetupError
from pgdyno.server import DiskDirectories
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.stats import paired_effect

PLAIN = "a plain loop mount"
_UNRECORDED = "the same disk, recording nothing"
_RECORDED = "the recording disk"
_SIZE_BYTES = 4 << 30
_SETTINGS = {**SETTINGS, "synchronous_commit": "on", "checkpoint_timeout": "30s"}
_PATIENCE_S = 10.0


class PlainLoop:
    """Disk for a cluster: a file system in a sparse file, on a loop device."""

    wal: Path | None = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "disks"
        point = self._directory / "mnt"
        point.mkdir(parents=True)
        make_image(self._directory / "image", "ext4", _SIZE_BYTES)
        mount_image(self._directory / "image", point, "ext4")
        change_owner(point, server_account())
        self.data: Path | None = point

    def close(self) -> None:
        """Unmount it."""
        unmount_all(self._directory, patience_s=_PATIENCE_S)


class RecordingDisk:
    """Disk for a cluster: a recording disk."""

    wal: Path | None = None

    def __init__(self, directory: Path) -> None:
        self.device = open_device(directory / "disks", fs="ext4", size_bytes=_SIZE_BYTES, log=True)
        self.data: Path | None = self.device.path

    def close(self) -> None:
        """Unmount it."""
        self.device.close()


class Recorded(Struct, frozen=True):
    """The engine, with the server's disk recorded during the slice."""

    engine: Pgdyno
    device: EmulatedDevice

    @property
    def name(self) -> str:
        """Name in the results."""
        return self.engine.name

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice."""
        self.device.start_recording()
        try:
            return self.engine.measure(case, seconds)
        finally:
            self.device.stop_recording()


def recording_cost(
    child: EngineChild, cases: Sequence[Case], *, scale: int, pairs: int, seconds: float
) -> list[dict[str, Any]]:
    """Return ratios of throughput, recorded over the other sides, rows for each case.

    Raises BenchError without root or FUSE.
    """
    rng = random.Random(4)
    rows = []
    with _sides(child, max(case.clients for case in cases), scale) as sides:
        for case in cases:
            tps: dict[str, list[float]] = {side.name: [] for side in sides}
            for _ in range(pairs):
                for side in rng.sample(sides, len(sides)):
                    tps[side.name].append(side.measure(case, seconds).throughput_tps)
            for over in (PLAIN, _UNRECORDED):
                effect = paired_effect(tps[over], tps[_RECORDED])
                rows.append({**asdict(case), "over": over, "effect": asdict(effect)})
    return rows


@contextmanager
def _sides(child: EngineChild, clients: int, scale: int) -> Iterator[list[Contender]]:
    """Yield the plain disk, the recording disk, and the latter with a recording."""
    recording: list[RecordingDisk] = []

    def recording_disk(directory: Path) -> DiskDirectories:
        recording.append(RecordingDisk(directory))
        return recording[0]

    try:
        with (
            _server(PlainLoop, clients, scale) as plain,
            _server(recording_disk, clients, scale) as recorded,
        ):
            yield [
                Pgdyno(plain, child, PLAIN),
                Pgdyno(recorded, child, _UNRECORDED),
                Recorded(Pgdyno(recorded, child, _RECORDED), recording[0].device),
            ]
    except SetupError as error:
        raise BenchError(error.message) from None


def _server(
    disks: Callable[[Path], DiskDirectories], clients: int, scale: int
) -> AbstractContextManager[BenchServer]:
    return bench_server(clients_max=clients, scale=scale, settings=_SETTINGS, disks=disks)
