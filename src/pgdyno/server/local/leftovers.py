"""Processes that outlived a killed pgdyno and their guardian, and the shared memory of killed ones.

A server process is pgdyno's if it runs a ``postgres`` binary in a data directory of pgdyno: every
server process keeps its data directory as working directory. Guardians, and tools that copy or
receive for a server, poolers, failover managers and front ends name a directory of pgdyno in their
arguments.

A postmaster removes its shared memory itself, except after SIGKILL. Then two parts remain: a small
System V segment, whose ID is in ``postmaster.pid``, and ``/dev/shm/PostgreSQL.N``, the POSIX
segments of dynamic shared memory. The System V segment names the control segment of the latter
(``PGShmemHeader.dsm_control`` in PostgreSQL's storage/pg_shmem.h), which lists the others
(``dsm_control_header`` in storage/ipc/dsm.c). The layouts are the same in 14 to 18; anything else
is left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pgdyno.server.local.account import server_account
from pgdyno.server.local.programs import process_directories, send
from pgdyno.server.local.safefiles import as_server_account, open_plain, read_text

_HELPERS = frozenset(
    (
        *(
            b"guardian.py",
            b"pg_receivewal",
            b"pg_basebackup",
            b"pg_rewind",
            b"pg_dump",
            b"pg_restore",
            b"initdb",
            b"cp",
            b"rm",
        ),
        *(b"pgbouncer", b"pgpool", b"haproxy", b"patroni", b"etcd", b"java"),
    )
)
_IMMEDIATE_S_MAX = 5.0
_KILL_S_MAX = 5.0
_POLL_S = 0.01
_SHMEM_MAGIC = 679834894  # PGShmemMagic
_CONTROL_MAGIC = 0x9A503D32  # PG_DYNSHMEM_CONTROL_MAGIC
_CONTROL_BYTES_MAX = 64 << 20  # More than twice the size for 2^18 backends.
_SHM_RDONLY = 0o10000
_IPC_RMID = 0


def end_leftovers(data_dir: Path) -> None:
    """End all server processes in ``data_dir`` and remove their shared memory.

    The caller holds the cluster's lock, so that no living pgdyno owns them.
    """
    for number, seconds in ((signal.SIGQUIT, _IMMEDIATE_S_MAX), (signal.SIGKILL, _KILL_S_MAX)):
        deadline = time.monotonic() + seconds
        processes = server_processes(data_dir)
        send(processes, number)
        send(processes, signal.SIGCONT)  # A stopped process handles a signal only when continued.
        while processes and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            processes = server_processes(data_dir)
    remove_shared_memory(data_dir)


def end_helpers(directory: Path) -> None:
    """Kill guardians, poolers, front ends and PostgreSQL's tools that work in ``directory``.

    The caller holds the lock that proves that no living pgdyno owns them.
    """
    deadline = time.monotonic() + _KILL_S_MAX
    while (processes := helpers(directory)) and time.monotonic() < deadline:
        send(processes, signal.SIGKILL)
        time.sleep(_POLL_S)


def helpers(directory: Path) -> list[int]:
    """Return the PIDs of guardians and tools that work in ``directory``."""
    base = os.fsencode(os.path.realpath(directory))
    account = server_account()
    owners = {os.geteuid()} | ({account.uid} if account else set())
    found = []
    for entry in process_directories():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            names = {word.rpartition(b"/")[2] for word in words[:4]}
            ours = bool(names & _HELPERS) and any(base in word for word in words)
            if ours and entry.stat().st_uid in owners:
                found.append(int(entry.name))
    return found


def server_processes(data_dir: Path) -> list[int]:
    """Return the PIDs of all server processes in ``data_dir``, including the postmaster."""
    wanted = os.path.realpath(data_dir)
    found = []
    for entry in process_directories():
        with contextlib.suppress(OSError):
            binary = (entry / "exe").readlink().name.removesuffix(" (deleted)")
            if binary == "postgres" and str((entry / "cwd").readlink()) == wanted:
                found.append(int(entry.name))
    return found


_SHMEM_HEADER = struct.Struct("=iiQQI")  # magic, creator pid, total size, free offset, dsm_control
_CONTROL_HEADER = struct.Struct("=III")  # magic, items, items at most
_CONTROL_ITEM = struct.Struct("@IIQQPB7x")  # handle, references, first page, pages, private, pinned


def remove_shared_memory(data_dir: Path) -> None:
    """Remove the shared memory of the dead server of ``data_dir`` if no process is attached."""
    if (key_and_id := _recorded_segment(data_dir)) is None:
        return
    key, segment = key_and_id
    if not _is_abandoned(key, segment):
        return
    with as_server_account():
        for handle in _posix_handles(segment):
            with contextlib.suppress(OSError):
                Path(f"/dev/shm/PostgreSQL.{handle}").unlink()
    ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)


def remove_segments_of(pid: int) -> None:
    """Remove the System V segments of a process that has ended, to which none is attached."""
    for each in _abandoned_segments():
        if each.creator == pid:
            ctypes.CDLL(None).shmctl(each.id, _IPC_RMID, None)


def _recorded_segment(data_dir: Path) -> tuple[int, int] | None:
    """Return key and ID from the seventh line of postmaster.pid."""
    try:
        lines = (read_text(data_dir / "postmaster.pid") or "").splitlines()
        key, segment = lines[6].split()
        return int(key), int(segment)
    except (IndexError, ValueError):
        return None


def _is_abandoned(key: int, segment: int) -> bool:
    """True if the segment has this key, belongs to the account and no process is attached."""
    return any((each.key, each.id) == (key, segment) for each in _abandoned_segments())


class _Segment(NamedTuple):
    key: int
    id: int
    creator: int


def _abandoned_segments() -> Iterator[_Segment]:
    """Yield the account's segments that no process is attached to."""
    account = server_account()
    uid = os.geteuid() if account is None else account.uid
    try:
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return
    for row in rows:
        key, segment, _, _, creator, _, attached, owner = map(int, row.split()[:8])
        if attached == 0 and owner == uid:
            yield _Segment(key, segment, creator)


def _posix_handles(segment: int) -> list[int]:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(segment, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return []
    header = ctypes.string_at(address, _SHMEM_HEADER.size)
    libc.shmdt(ctypes.c_void_p(address))
    magic, _, _, _, control = _SHMEM_HEADER.unpack(header)
    return [] if magic != _SHMEM_MAGIC else [*_listed_handles(control), control]


def _listed_handles(control: int) -> list[int]:
    """Return the handles in use according to the control segment."""
    try:
        with open_plain(Path(f"/dev/shm/PostgreSQL.{control}")) as file:
            content = file.read(_CONTROL_BYTES_MAX)
        magic, items, _ = _CONTROL_HEADER.unpack_from(content)
        if magic != _CONTROL_MAGIC:
            return []
        start = 16  # The items are aligned to 8 bytes.
        rows = (_CONTROL_ITEM.unpack_from(content, start + i * 40) for i in range(items))
        # Handles with the lowest bit set are in the main segment, without a file of their own.
        return [row[0] for row in rows if row[1] > 0 and row[0] % 2 == 0]
    except (OSError, struct.error):
        return []
