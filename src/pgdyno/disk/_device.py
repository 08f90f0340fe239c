"""An emulated disk: recorded for power cuts, or slowed down.

Files in its directory::

    image       content of the disk: a sparse file of the disk's size
    fuse/disk   the same, served by a daemon (crates/blackout) that receives each write and flush
    mnt/        the file system on it, through a loop device
    base, log   of a recorded disk: the image at the start, and all writes since
    daemon.log  error messages of the daemon
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Self

from msgspec import Struct

from pgdyno.disk._cleanup import DAEMON_MODULE, module_environment
from pgdyno.disk.mounting import (
    STUCK_DEAD_S,
    FileSystem,
    make_image,
    mount_image,
    require_mounting,
    sync_mount,
    unmount_all,
)
from pgdyno.errors import RunError, SetupError
from pgdyno.json_types import Json
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.spec.disk import SIZE_BYTES_MIN, DiskKind, DiskPlan

_BLOCK_BYTES = 4096
_SIZE_BYTES_MIN = {"ext4": 16 << 20, "xfs": 300 << 20}
_NEEDS_ROOT = "run pgdyno as root, where FUSE and loop devices may be used, or choose a plain disk"
_BUSY_S_MAX = 10.0
_ANSWER_S_MAX = 10.0
"""Time for requests that a daemon carries out at once."""
_END_S_MAX = 10.0
SIZE_BYTES_DEFAULT = 4 << 30
"""The image is sparse: unused blocks need no space."""
_FREE_PART = 0.8
_STEP_BYTES = 64 << 20


class EmulatedDevice:
    """A mounted disk. Make one with ``open_device``; not for use by several threads."""

    def __init__(
        self, directory: Path, fs: FileSystem, size_bytes: int, pace: Json, *, log: bool
    ) -> None:
        """Internal; use ``open_device``."""
        self.directory = directory
        self.fs = fs
        self.size_bytes = size_bytes
        self.log: Path | None = directory / "log" if log else None
        self._pace = pace
        self._daemon: _Daemon | None = None
        self._recording = False

    @property
    def path(self) -> Path:
        """The mount point; the account that runs servers may write there."""
        return self.directory / "mnt"

    @property
    def image(self) -> Path:
        """The present content of the disk, flushed or not: a sparse file."""
        return self.directory / "image"

    @property
    def base(self) -> Path:
        """The image at the start of the recording."""
        return self.directory / "base"

    @property
    def abandoned(self) -> bool:
        """True if the process that serves it has ended before the disk was closed."""
        return self._daemon is not None and self._daemon.ended

    def sync(self) -> None:
        """Write out the buffers of the file system, and flush the disk."""
        sync_mount(self.path)

    def start_recording(self) -> None:
        """Sync, copy the image to ``base``, and begin ``log``.

        Everything written before counts as durable. An earlier recording is discarded.
        """
        if self.log is None:
            raise RunError("a disk opened without a log cannot be recorded", code="disk-log")
        for path in (self.base, self.log):
            path.unlink(missing_ok=True)
        self.sync()
        self._ask({"do": "start", "base": str(self.base), "log": str(self.log)})
        self._recording = True

    def stop_recording(self) -> dict[str, int]:
        """End the log; return its numbers of writes, bytes and flushes. RunError if incomplete."""
        self._recording = False
        recorded: dict[str, int] | None = self._ask({"do": "stop"})
        if recorded is None:
            raise RunError("the disk was not being recorded", code="disk-log")
        return recorded

    def fail(self) -> None:
        """Fail the disk: every request is answered with EIO from now on; the image is kept.

        The file system keeps what it has in memory, as on any machine that loses a disk.
        """
        self._ask({"do": "fail"}, _ANSWER_S_MAX)
        # The kernel's cache of the daemon's file is part of the disk, not memory above it.
        disk = os.open(self._disk, os.O_RDONLY)
        try:
            os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(disk)

    @property
    def answers(self) -> bool:
        """True if the disk can be read."""
        try:
            with self._disk.open("rb", buffering=0) as disk:
                return bool(disk.read(_BLOCK_BYTES))
        except OSError:
            return False

    def replace(self, keep: Path) -> None:
        """Replace it by a new disk with an empty file system, and keep the old image as ``keep``.

        The disk must not be in use any more. Raises SetupError as ``open_device``.
        """
        self.close()
        self.image.rename(keep)
        _open(self)

    def close(self) -> None:
        """End a recording, unmount, end the daemon; the files are kept. May be called twice."""
        if self._daemon is None:
            return
        if alive := self._hurry():
            unmount_all(self.directory, patience_s=_BUSY_S_MAX)
        else:
            unmount_all(self.directory, patience_s=_BUSY_S_MAX, stuck_s=STUCK_DEAD_S)
        self._daemon.end(_END_S_MAX if alive else 0.0)
        self._daemon = None

    def _hurry(self) -> bool:
        """End the recording and remove the delays; return whether the daemon answers."""
        try:
            self._ask({"do": "hurry"}, _ANSWER_S_MAX)
        except RunError:
            return False
        if self._recording:
            with contextlib.suppress(RunError):
                self.stop_recording()
        return True

    @property
    def _disk(self) -> Path:
        return self.directory / "fuse" / "disk"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, str], seconds_max: float | None = None) -> Any:
        if self._daemon is None:
            raise RunError("the disk is closed", code="disk-closed")
        return self._daemon.ask(request, seconds_max)


class _Daemon:
    """The process that serves a disk; see ``daemon.py``."""

    def __init__(self, directory: Path, config: Json) -> None:
        command = [
            sys.executable,
            "-m",
            DAEMON_MODULE,
            json.dumps(config),
            os.path.realpath(directory),
        ]
        self._log = directory / "daemon.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=module_environment(),
                start_new_session=True,
            )
        try:
            self._answer()
        except RunError as error:
            self.end()
            raise SetupError(error.message, code="disk-setup", hint=_NEEDS_ROOT) from error
        except BaseException:
            self.end()
            raise

    @property
    def ended(self) -> bool:
        """True if the process has ended."""
        return self._process.poll() is not None

    def ask(self, request: dict[str, str], seconds_max: float | None = None) -> Any:
        """Have a request carried out, without a time limit by default. Raises RunError."""
        with contextlib.suppress(BrokenPipeError):
            stdin = _pipe(self._process.stdin)
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        return self._answer(seconds_max)

    def _answer(self, seconds_max: float | None = None) -> Any:
        stdout = _pipe(self._process.stdout)
        if not select.select([stdout], [], [], seconds_max)[0]:
            raise RunError("the disk's daemon does not answer", code="disk-daemon")
        line = stdout.readline()
        if not line:
            said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            why = said[0] if said else "it was killed"
            raise RunError(f"the disk's daemon has ended: {why}", code="disk-daemon")
        answer = json.loads(line)
        if "error" in answer:
            raise RunError(answer["error"], code="disk-daemon", hint=answer.get("hint"))
        return answer["ok"]

    def end(self, seconds_max: float = _END_S_MAX) -> None:
        """Wait for it to end, as it does after the unmount; kill it if it does not."""
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise TypeError("the daemon was started without pipes")
    return pipe


def open_device(
    directory: Path,
    *,
    fs: FileSystem,
    size_bytes: int,
    log: bool,
    flush_ms: float = 0.0,
    write_bytes_per_s: int | None = None,
) -> EmulatedDevice:
    """Make a new disk with an empty file system, mounted at ``directory/mnt``.

    ``flush_ms`` is the time of each flush, ``write_bytes_per_s`` the speed of writes. Raises
    SetupError when this system does not support it, and then leaves only ``directory``.
    """
    _require_system()
    shared_directory(directory)
    _require_space(directory, fs, size_bytes)
    device = EmulatedDevice(directory, fs, size_bytes, _pace(flush_ms, write_bytes_per_s), log=log)
    _open(device)
    return device


def _open(device: EmulatedDevice) -> None:
    """Make and mount the disk; after an error only its directory is left."""
    directory = device.directory
    try:
        make_image(device.image, device.fs, device.size_bytes)
        for name in ("fuse", "mnt"):
            shared_directory(directory / name)
        config = {"image": str(device.image), "mount_point": str(directory / "fuse")}
        device._daemon = _Daemon(directory, {**config, **device._pace})
        mount_image(device._disk, device.path, device.fs)
        with contextlib.suppress(OSError):
            (device.path / "lost+found").rmdir()
        change_owner(device.path, server_account())
    except BaseException:
        device.close()
        unmount_all(directory, patience_s=_BUSY_S_MAX)
        _remove_files(directory)
        raise


def _pace(flush_ms: float, write_bytes_per_s: int | None) -> dict[str, object]:
    return {"flush_ms": flush_ms, "write_bytes_per_s": write_bytes_per_s}


def _remove_files(directory: Path) -> None:
    for name in ("fuse", "mnt"):
        with contextlib.suppress(OSError):
            (directory / name).rmdir()
    for name in ("image", "daemon.log"):
        (directory / name).unlink(missing_ok=True)


def _require_system() -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "an emulated disk requires root, to mount it",
            code="disk-root",
            hint=_NEEDS_ROOT,
        )
    require_mounting()
    for device, what in (("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices")):
        if not os.access(device, os.R_OK | os.W_OK):
            raise SetupError(
                f"this system has no {what}: {device} is missing or not accessible",
                code="disk-kernel",
                hint="run the container with --privileged, or choose a plain disk",
            )


def _require_space(directory: Path, fs: FileSystem, size_bytes: int) -> None:
    least = _SIZE_BYTES_MIN[fs]
    if size_bytes < least:
        raise SetupError(
            f"a disk with {fs} needs at least {least >> 20}MB, not {size_bytes >> 20}MB",
            code="disk-size",
        )
    free = shutil.disk_usage(directory).free
    if free < size_bytes:
        size = f"{size_bytes >> 20}MB"
        raise SetupError(
            f"a disk of {size} does not fit into {directory}, where {free >> 20}MB are free",
            code="disk-space",
            hint="make it smaller with size=…, or set PGDYNO_HOME to a directory with more space",
        )


class ImagedDisk(Struct, frozen=True):
    """A ``slow`` or ``blackout`` disk."""

    kind: DiskKind
    emulated: str
    device: EmulatedDevice

    @property
    def path(self) -> Path:
        """The root of its file system."""
        return self.device.path

    def close(self) -> None:
        """Unmount it, and end its daemon."""
        self.device.close()


def default_size_bytes(plan: DiskPlan, directory: Path) -> int:
    """Return 4 GB, or most of the free space where that is less."""
    usable = int(shutil.disk_usage(directory).free * _FREE_PART) // _STEP_BYTES * _STEP_BYTES
    return max(min(SIZE_BYTES_DEFAULT, usable), SIZE_BYTES_MIN[plan.fs])


def open_imaged(plan: DiskPlan, directory: Path) -> ImagedDisk:
    """Make the disk in ``directory``. Raises SetupError if the machine cannot have it."""
    shared_directory(directory)
    device = open_device(
        directory,
        fs=plan.fs,
        size_bytes=plan.size_bytes or default_size_bytes(plan, directory),
        log=plan.kind == "blackout",
        flush_ms=plan.flush_ms,
        write_bytes_per_s=plan.write_bytes_per_s,
    )
    return ImagedDisk(plan.kind, str(plan), device)
