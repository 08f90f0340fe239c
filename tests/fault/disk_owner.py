"""Run as a process: the owner of a disk, who is to be killed in the phase that it says.

``disk_owner.py FOLDER PHASE``; it prints ``there`` when the phase has come, and stays in it.
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

from pgdyno.disk import _device


def stay() -> None:
    print("there", flush=True)
    signal.pause()


folder, phase = Path(sys.argv[1]), sys.argv[2]
mount_image = _device.mount_image


def slow_mount(*arguments: object) -> None:
    if phase == "daemon":
        stay()
    mount_image(*arguments)  # type: ignore[arg-type]
    if phase == "mounted":
        stay()


_device.mount_image = slow_mount  # type: ignore[assignment]
disk = _device.open_device(folder, fs="ext4", size_bytes=64 << 20, log=True)
disk.start_recording()
(disk.path / "file").write_bytes(b"x" * (8 << 20))
if phase == "failed":
    disk.fail()
    with suppress(OSError):  # so that the file system has noticed
        disk.sync()
stay()
