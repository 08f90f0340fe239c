"""File operations in directories that belong to the server's account.

An account with write access to a directory can replace a file there by a link, a pipe or another
directory at any moment, and root would follow. Two rules prevent an escalation:

- Files in a directory of the account are accessed only within ``as_server_account``, or by a
  command that ``run_as`` runs. So a name that the account has replaced gives it no further rights.
- As root, pgdyno works only in directories that no other account may write to, and whose path the
  account cannot redirect: ``_open_unredirected`` opens each component of the path.
  ``make_directory`` goes from there to a directory of the account, ``remove_directory`` back.

The callers of ``make_directory``, ``remove_directory`` and ``copy_tree`` are safe: a path that the
account could have chosen or changed is below a directory that it may write to, and all work on it
is done as the account; likewise all functions that are called within ``as_server_account``, such as
those that move the WAL (_wal_directory.py). The names in a path come from
pgdyno or its user: a cluster's directory, its disks, templates and the files that a drill keeps;
none is read from a link of the account. ``remove_own_directory`` is for directories directly in a
directory of pgdyno; rm(1) follows no link.

Within ``as_server_account`` the thread has the account's file system identity (setfsuid(2)): the
kernel checks every file access against it, and root's file capabilities do not apply.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import shutil
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO

from pgdyno.errors import SetupError
from pgdyno.server.local.account import ServerAccount, run_as, server_account

MORE_SPACE = "set PGDYNO_HOME to a directory with more space"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TEXT_BYTES_MAX = 64 << 20
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
_LINKS_MAX = 40
_KEEP = -1
"""Argument of setfsuid and setfsgid with which they only return the present ID."""


@contextlib.contextmanager
def as_server_account() -> Iterator[None]:
    """Access files as the account that runs servers, in this thread, within the block.

    Without effect if pgdyno is not root. Not for blocks that start processes or import modules.
    """
    account = server_account()
    if account is None:
        yield
        return
    with _as_identity(account.uid, account.gid):
        yield


@contextlib.contextmanager
def as_server_account_in(directory: Path) -> Iterator[None]:
    """Do as ``as_server_account``, and turn an OSError into a SetupError about ``directory``."""
    try:
        with as_server_account():
            yield
    except OSError as problem:
        raise _file_error("work in", directory, problem) from None


@contextlib.contextmanager
def _as_identity(uid: int, gid: int) -> Iterator[None]:
    before = _file_identity()
    _set_file_identity(uid, gid)
    try:
        yield
    finally:
        _set_file_identity(*before)


_libc = functools.cache(lambda: ctypes.CDLL(None))


def _file_identity() -> tuple[int, int]:
    libc = _libc()
    return libc.setfsuid(_KEEP), libc.setfsgid(_KEEP)


def _set_file_identity(uid: int, gid: int) -> None:
    libc = _libc()
    libc.setfsgid(gid)
    libc.setfsuid(uid)
    if _file_identity() != (uid, gid):
        raise SetupError(
            f"root cannot access files as another user (uid {uid}) here",
            code="no-account",
            hint="run pgdyno as a user other than root",
        )


def read_text(path: Path) -> str | None:
    """Return the text of a regular file of the account; ``None`` if it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(_TEXT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return None


def require_text(path: Path) -> str:
    """Return the text of a regular file of the account; SetupError if it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(_TEXT_BYTES_MAX).decode(errors="replace")
    except OSError as problem:
        raise _file_error("read", path, problem) from None


def write_text(path: Path, content: str) -> None:
    """Replace a file of the account atomically; SetupError if that fails."""
    partial = path.with_name(f"{path.name}.pgdyno")
    try:
        with as_server_account():
            partial.unlink(missing_ok=True)
            with new_plain(partial) as file:
                file.write(content.encode())
            partial.rename(path)
    except OSError as problem:
        raise _file_error("write", path, problem) from None


def write_own(path: Path, content: str, *, readable_by_server: bool = False) -> None:
    """Write a file in a directory of pgdyno, mode 0600, or 0640 for the account's group."""
    account = server_account()
    partial = path.with_name(f"{path.name}.new")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
        with os.fdopen(descriptor, "w") as file:
            if readable_by_server and account is not None:
                os.fchown(descriptor, -1, account.gid)
                os.fchmod(descriptor, 0o640)
            file.write(content)
        partial.rename(path)
    except OSError as problem:
        full = problem.errno in _FULL
        raise SetupError(
            f"cannot write {path}: {problem.strerror}",
            code="state-directory",
            hint=MORE_SPACE if full else None,
            place=path if full else None,
        ) from None


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file of the account over ``target``; call within ``as_server_account``."""
    target.unlink(missing_ok=True)
    with open_plain(source) as read, new_plain(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)


def open_plain(path: Path) -> FileIO:
    """Open a regular file of the account for reading; OSError for anything else, or a link."""
    with as_server_account():
        file = FileIO(os.open(path, os.O_RDONLY | _PLAIN), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def new_plain(path: Path) -> IO[bytes]:
    """Create a file as the account and open it for writing; OSError if the path exists."""
    with as_server_account():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
    return os.fdopen(descriptor, "wb")


def make_directory(path: Path) -> None:
    """Make a directory of the account, mode 0700; SetupError if that fails.

    It is made by the account itself below a directory of the account and within
    ``as_server_account``, else by root, who changes its owner.
    """
    account = server_account()
    try:
        with _parent_of_ours(path, account) as parent:
            if account is None or parent is None:
                with as_server_account():
                    path.mkdir(0o700)
            else:
                os.mkdir(path.name, 0o700, dir_fd=parent)
                _change_owner(path.name, parent, account)
    except OSError as problem:
        raise _file_error("make the directory", path, problem) from None


@contextlib.contextmanager
def _parent_of_ours(path: Path, account: ServerAccount | None) -> Iterator[int | None]:
    """Open the parent of ``path`` if root may work there; ``None`` if only the account may."""
    if account is None or _file_identity()[0] == account.uid:
        yield None
        return
    parent = _open_unredirected(path.parent, account)
    try:
        yield parent if parent is not None and _only_root_writes(parent) else None
    finally:
        if parent is not None:
            os.close(parent)


def _open_unredirected(directory: Path, account: ServerAccount) -> int | None:
    """Open ``directory``; ``None`` if the account may replace a component of its path."""
    names, links = [*reversed(directory.absolute().parts[1:])], 0
    held = os.open("/", _PATH_ONLY)
    try:
        while names and links <= _LINKS_MAX and _out_of_reach(held, account):
            entry = os.open(names.pop(), _PATH_ONLY | os.O_NOFOLLOW, dir_fd=held)
            status = os.fstat(entry)
            if not stat.S_ISLNK(status.st_mode):
                held, entry = entry, held
            elif status.st_uid != account.uid:
                links += 1
                names += reversed(Path(os.readlink("", dir_fd=entry)).parts)
            else:
                links = _LINKS_MAX + 1
            os.close(entry)
        return None if names or links > _LINKS_MAX else os.dup(held)
    finally:
        os.close(held)


def _out_of_reach(directory: int, account: ServerAccount) -> bool:
    """True if the account cannot replace other accounts' files there."""
    status = os.fstat(directory)
    mode = status.st_mode
    writes = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and status.st_gid == account.gid)
    return status.st_uid != account.uid and bool(not writes or mode & stat.S_ISVTX)


def _only_root_writes(directory: int) -> bool:
    """True if no other account can replace root's files there; so in ``/tmp``."""
    status = os.fstat(directory)
    mode = status.st_mode
    return status.st_uid == 0 and bool(not mode & 0o022 or mode & stat.S_ISVTX)


def _change_owner(name: str, parent: int, account: ServerAccount) -> None:
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.fchown(directory, account.uid, account.gid)
    finally:
        os.close(directory)


def remove_directory(path: Path) -> None:
    """Remove a directory of the account with its contents, as far as possible.

    Other file systems mounted below it are not touched.
    """
    _remove(path, server_account())
    remove_empty_directory(path)


def remove_empty_directory(path: Path) -> None:
    """Remove a directory of the account if it is empty."""
    account = server_account()
    with contextlib.suppress(OSError), _parent_of_ours(path, account) as parent:
        if parent is None:
            with as_server_account():
                path.rmdir()
        else:
            os.rmdir(path.name, dir_fd=parent)


def remove_own_directory(path: Path) -> None:
    """Remove a directory in a directory of pgdyno; file systems mounted below it stay."""
    _remove(path, None)


def _remove(path: Path, account: ServerAccount | None) -> None:
    # rm(1) works on open directories, so that no link can redirect it, however deep the tree.
    options = ["-rf", "--one-file-system", "--preserve-root=all"]
    run_as(account, ["rm", *options, "--", path])


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory of the account with its contents to ``target``, which must not exist.

    Links are copied as links; blocks are shared where the file system supports it.
    """
    make_directory(target)
    done = run_as(server_account(), ["cp", "-a", "--reflink=auto", f"{source}/.", target])
    if done.returncode != 0:
        remove_directory(target)
        reason = (done.stderr.strip().splitlines() or ["no message"])[0].rpartition(": ")[2]
        message = f"cannot copy {source} to {target}: {reason}"
        full = "No space" in reason
        raise SetupError(
            message,
            code="copy-failed",
            hint=MORE_SPACE if full else None,
            place=target if full else None,
        )


def can_clone(source: Path, directory: Path) -> bool:
    """Return whether files copied from ``source``, a directory of the account, to one in
    ``directory``, of pgdyno, share their blocks: on XFS and btrfs, within one file system."""
    probe = directory / "clone-probe"
    make_directory(probe)
    account = server_account()
    try:
        run_as(account, ["dd", "if=/dev/zero", f"of={probe}/a", "bs=8k", "count=1"])
        first = run_as(account, ["cp", "--reflink=always", f"{probe}/a", f"{probe}/b"])
        same = source.stat().st_dev == directory.stat().st_dev
        return first.returncode == 0 and same
    finally:
        remove_directory(probe)


def directory_bytes(directory: Path) -> int:
    """Return the space that the files below a directory of the account occupy."""
    with as_server_account_in(directory):
        return sum(
            path.lstat().st_blocks * 512 for path in directory.rglob("*") if not path.is_symlink()
        )


def _file_error(action: str, path: Path, problem: OSError) -> SetupError:
    full = problem.errno in _FULL
    return SetupError(
        f"cannot {action} {path}: {problem.strerror}",
        code="data-directory",
        hint=MORE_SPACE if full else "only the server and pgdyno may change its directory",
        place=path if full else None,
    )
