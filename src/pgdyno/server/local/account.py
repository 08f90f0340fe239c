"""The unprivileged account that runs PostgreSQL when pgdyno itself is root.

PostgreSQL refuses to run as root. The account is ``pgdyno``, created when it is first needed, so
that it differs from the account of an installed PostgreSQL service. If no account can be created,
it is ``postgres``. ``nobody`` is not used: other services share it, and the server trusts its own
account over the Unix socket.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct

from pgdyno.errors import STOP_SIGNALS, SetupError
from pgdyno.server.local.programs import system_path
from pgdyno.server.locks import locked

_OWN_NAME = "pgdyno"
_FALLBACK_NAME = "postgres"
_CREATION_LOCK = Path("/run/pgdyno-account.lock")
"""A place in which only root can put anything, whatever PGDYNO_HOME is."""


class ServerAccount(Struct, frozen=True):
    """A system account."""

    name: str
    uid: int
    gid: int


@functools.cache
def server_account() -> ServerAccount | None:
    """Return the account that runs servers; ``None`` for the user's own (pgdyno is not root)."""
    if os.geteuid() != 0:
        return None
    # Changing the file system identity (see safefiles.py) would keep root's groups.
    if os.getgroups():
        os.setgroups([])
    return _look_up(_OWN_NAME) or _created()


def run_as(
    account: ServerAccount | None,
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    seconds_max: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command under ``account`` in ``/`` and the C locale, and capture its output.

    A command that exceeds ``seconds_max`` is killed, and subprocess.TimeoutExpired is raised.

    A stop signal to pgdyno's process group, such as a second Ctrl-C, can end the child before it is
    in its own session. It has not run the command by then, so it is run again: cleanup completes.
    """
    while True:
        done = subprocess.run(
            **under(account, argv),
            input=stdin if stdin is not None else "",
            text=True,
            errors="replace",
            capture_output=True,
            check=False,
            start_new_session=True,
            timeout=seconds_max,
        )
        if -done.returncode not in STOP_SIGNALS:
            return done


def under(account: ServerAccount | None, argv: Sequence[str | Path]) -> dict[str, Any]:
    """Return arguments of subprocess.Popen: a command under ``account``, in ``/`` and the C locale.

    ``chroot`` of coreutils changes to the account. Without it the child that Python starts has to,
    for which Python copies its own page tables; that takes longer than most of these commands.
    """
    words = list(map(str, argv))
    where = {"cwd": "/", "env": plain_environment()}
    if account is None:
        return {"args": words, **where}
    if _chroot_changes_to(account):
        return {"args": _by_chroot(account) + words, **where}
    return {"args": words, "user": account.uid, "group": account.gid, "extra_groups": (), **where}


def _by_chroot(account: ServerAccount) -> list[str]:
    return ["chroot", f"--userspec=+{account.uid}:+{account.gid}", "--groups=", "/"]


@functools.cache
def _chroot_changes_to(account: ServerAccount) -> bool:
    """Return whether it does; not every chroot has the options, and not every root may call it."""
    try:
        done = subprocess.run(
            [*_by_chroot(account), "true"], capture_output=True, env=plain_environment()
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


def plain_environment() -> dict[str, str]:
    """Return an environment for PostgreSQL's binaries: no PG* variables, messages in English."""
    return {"PATH": system_path(), "LC_ALL": "C", "TZ": "UTC"}


def change_owner(path: Path, account: ServerAccount | None) -> None:
    """Change the owner of a file or directory of pgdyno that only pgdyno can replace."""
    if account is None:
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def change_tree_owner(top: Path, account: ServerAccount | None) -> None:
    """Change the owner of a kept data directory to ``account``, if another account owns it."""
    if account is None or (owner := top.lstat().st_uid) == account.uid:
        return
    # chown(1) works on open directories; other owners' files were planted by the former owner.
    owners = [f"--from={owner}", f"{account.uid}:{account.gid}"]
    done = run_as(None, ["chown", "-R", "-P", "--no-dereference", *owners, "--", top])
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(
            f"cannot change the owner of {top} to {account.name}: {reason}", code="data-directory"
        )


def can_enter(directory: Path) -> bool:
    """True if the account that runs servers can enter ``directory``."""
    account = server_account()
    if account is None:
        return os.access(directory, os.X_OK)
    return run_as(account, ["/bin/sh", "-c", 'cd "$1"', "sh", directory]).returncode == 0


def require_reach(directory: Path) -> None:
    """Raise SetupError when the account that runs servers cannot enter ``directory``."""
    account = server_account()
    if account is not None and not can_enter(directory):
        raise SetupError(
            f"PostgreSQL runs as {account.name} here, which cannot enter {directory}",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory that it can enter, such as /var/tmp/pgdyno",
            place=directory,
        )


def _look_up(name: str) -> ServerAccount | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return ServerAccount(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _created() -> ServerAccount:
    """Create the account, unless another pgdyno has done so meanwhile.

    useradd does not exclude itself everywhere: of two at once, the later one can write a user
    database without the account of the earlier one.
    """
    lock = locked(_CREATION_LOCK) if os.access(_CREATION_LOCK.parent, os.W_OK) else nullcontext()
    with lock:
        return _look_up(_OWN_NAME) or _create()


def _create() -> ServerAccount:
    """Create the system account ``pgdyno`` with useradd or adduser, else use ``postgres``."""
    options = ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    commands = (
        ["useradd", "--system", "--user-group", "--no-create-home", *options, _OWN_NAME],
        ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", _OWN_NAME],  # BusyBox
    )
    reason = "neither useradd nor adduser is installed"
    for command in commands:
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if account := _look_up(_OWN_NAME):  # Another pgdyno may have created it.
            return account
        reason = done.stderr.strip() or f"{command[0]} ended with status {done.returncode}"
    if account := _look_up(_FALLBACK_NAME):
        return account
    raise SetupError(
        f"PostgreSQL does not run as root, and no account could be created for it: {reason}",
        code="no-account",
        hint=f"run pgdyno as another user, or add a system account named {_OWN_NAME}",
    )
