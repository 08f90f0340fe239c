"""Images, mounts and loop devices, from the kernel's tables; unmounting that does not hang.

A file system on a loop device is mounted with ``mount -o loop``: the loop device is then removed
with the mount, also when ``mount`` itself is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server.local.programs import find_program, system_path

FileSystem = Literal["ext4", "xfs"]
_PACKAGES: dict[FileSystem, str] = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}
_MKFS_OPTIONS: dict[FileSystem, list[str]] = {
    "ext4": ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["-q", "-f"],
}
_CAP_SYS_ADMIN = 21
_MNT_FORCE = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_LOOP_CLR_FD = 0x4C01
_POLL_S = 0.02
_STUCK_S = 30.0
STUCK_DEAD_S = 2.0
"""Time limit of an unmount whose pending writes are not needed."""


class Mount(Struct, frozen=True):
    """A line of the kernel's table of mounts."""

    point: str
    fs: str
    source: str
    options: str
    """Options of the file system, as ``rw,errors=continue``."""


def require_mounting() -> None:
    """Raise SetupError where root may not mount, as in most containers."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if found is not None and not int(found[1], 16) >> _CAP_SYS_ADMIN & 1:
        raise SetupError(
            "root may not mount disks here: it lacks CAP_SYS_ADMIN",
            code="disk-mount",
            hint="run the container with --privileged, or choose a plain disk",
        )


def mounts_below(directory: Path) -> list[Mount]:
    """Return the mounts at ``directory`` and below it, in the order in which they were made."""
    base = os.path.realpath(directory)
    with Path("/proc/self/mountinfo").open() as table:
        found = [_mount(line) for line in table]
    return [it for it in found if it.point == base or it.point.startswith(base + "/")]


def _mount(line: str) -> Mount:
    own, _, of_fs = line.partition(" - ")
    fs, source, *options = of_fs.split()
    return Mount(_unescaped(own.split()[4]), fs, source, "".join(options))


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def loops_below(directory: Path) -> list[Path]:
    """Return the loop devices whose backing file is below ``directory``."""
    base = os.path.realpath(directory) + "/"
    found = []
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if entry.read_text().startswith(base):
                found.append(Path("/dev") / entry.parts[3])
    return found


def detach_loop(device: Path) -> None:
    """Detach a loop device from its file: at once, or when its last user closes it."""
    with contextlib.suppress(OSError), device.open("rb") as opened:
        fcntl.ioctl(opened, _LOOP_CLR_FD)


def program(name: str, package: str) -> str:
    """Return the path of a system program. Raises SetupError with the package of a missing one."""
    if found := find_program(name):
        return found
    raise SetupError(
        f"this system has no {name}, which the disk needs",
        code="disk-program",
        hint=f"install the package {package}",
    )


def run_program(command: Sequence[str | Path], what: str) -> None:
    """Run a system program, protected from Ctrl-C. Raises SetupError with its message."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        start_new_session=True,
        env={"PATH": system_path(), "LC_ALL": "C"},
    )
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split()) or f"status {done.returncode}"
        raise SetupError(f"cannot {what}: {said}", code="disk-setup")


def mkfs(fs: FileSystem) -> str:
    """Return the path of the program that makes such a file system. Raises SetupError."""
    return program(f"mkfs.{fs}", _PACKAGES[fs])


def make_image(image: Path, fs: FileSystem, size_bytes: int) -> None:
    """Make a sparse file with an empty file system, fully initialised."""
    maker = mkfs(fs)
    with image.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(size_bytes)
    run_program([maker, *_MKFS_OPTIONS[fs], image], f"make a file system with {maker}")


def mount_image(image: Path, point: Path, fs: str, options: Sequence[str] = ()) -> None:
    """Mount the file system in an image file, through a loop device removed with the mount."""
    command = [program("mount", "mount"), "-t", fs, "-o", ",".join(("loop", *options))]
    run_program([*command, image, point], f"mount {image} at {point}")


def sync_mount(point: Path) -> None:
    """Write out all buffers of the file system at ``point``, with a flush at the end."""
    descriptor = os.open(point, os.O_RDONLY)
    try:
        if _libc().syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(point))
    finally:
        os.close(descriptor)


def unmount_all(directory: Path, *, patience_s: float, stuck_s: float = _STUCK_S) -> list[str]:
    """Unmount everything at and below ``directory``, detach its loop devices; return the actions.

    A mount in use is tried again for ``patience_s``, then detached: it is removed when its last
    user ends. A disk that has not accepted pending writes after ``stuck_s`` is disconnected, and
    they are lost. Never raises and never hangs.
    """
    done: dict[str, None] = {}
    deadline = time.monotonic() + patience_s
    # The table is read again each time: a mount by a killed pgdyno may still appear.
    while mounts := mounts_below(directory):
        above = [it for it in mounts if not it.fs.startswith("fuse")]
        if not above:
            _detach_loops(directory, done)
        last = (above or mounts)[-1]
        error = _unmount(last, mounts, stuck_s)
        if error == 0:
            done[f"unmounted {last.point}"] = None
        elif time.monotonic() < deadline:
            time.sleep(_POLL_S)
        elif _call_umount(last.point, _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
            done[f"detached {last.point}, which is still in use"] = None
        else:
            done[f"cannot unmount {last.point}: {os.strerror(error)}"] = None
            break
    _detach_loops(directory, done)
    return list(done)


def _detach_loops(directory: Path, done: dict[str, None]) -> None:
    for device in loops_below(directory):
        detach_loop(device)
        done[f"detached {device}"] = None


def _unmount(mount: Mount, mounts: Sequence[Mount], stuck_s: float) -> int:
    """Unmount, disconnecting its disks if that hangs; return 0 or the error's number."""
    result: list[int] = []
    thread = threading.Thread(
        target=lambda: result.append(_call_umount(mount.point, _UMOUNT_NOFOLLOW)), daemon=True
    )
    thread.start()
    thread.join(stuck_s)
    while thread.is_alive():
        # Once its disk is disconnected, a file system discards pending writes.
        for disk in (it for it in mounts if it.fs.startswith("fuse")):
            _call_umount(disk.point, _MNT_FORCE | _UMOUNT_NOFOLLOW)
        thread.join(stuck_s)
    return result[0]


def _call_umount(point: str, flags: int) -> int:
    """Call umount2; return 0 or the error's number."""
    return 0 if _libc().umount2(os.fsencode(point), flags) == 0 else ctypes.get_errno()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
