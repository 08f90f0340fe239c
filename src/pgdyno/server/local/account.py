"""The unprivileged account that runs PostgreSQL when pgdyno itself is root.

PostgreSQL refuses to run as root. The account is ``pgdyno``, made when it is first needed: it has
nothing in common with the account of a PostgreSQL that the system runs. Where no account can be
made it is ``postgres``. ``nobody`` is left alone: other services share it, and the server trusts
its own account over the Unix socket.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import SetupError

_OWN_NAME = "pgdyno"
_FALLBACK_NAME = "postgres"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Account:
    """A system account, by name and numbers."""

    name: str
    uid: int
    gid: int


@functools.cache
def server_account() -> Account | None:
    """The account to run servers under; ``None`` means "as ourselves" (pgdyno is not root)."""
    if os.geteuid() != 0:
        return None
    # Root's groups would stay when its file system identity is laid down (see safefiles.py).
    if os.getgroups():
        os.setgroups([])
    return _look_up(_OWN_NAME) or _create()


def run_as(
    account: Account | None,
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    seconds_max: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short command under ``account``, in a neutral directory and locale, output captured.

    One that runs longer than ``seconds_max`` is killed, and subprocess.TimeoutExpired raised.

    A stop signal to pgdyno's process group, a second Ctrl-C perhaps, ends a program that is not in
    a session of its own yet. It has done nothing by then, and is run again: what is being put away
    is put away.
    """
    while True:
        done = subprocess.run(
            [str(part) for part in argv],
            input=stdin if stdin is not None else "",
            text=True,
            errors="replace",
            capture_output=True,
            check=False,
            cwd="/",
            env=plain_environment(),
            start_new_session=True,
            timeout=seconds_max,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else (),
        )
        if -done.returncode not in _STOP_SIGNALS:
            return done


def plain_environment() -> dict[str, str]:
    """An environment for PostgreSQL's programs: no PG* variables, messages in English."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def give(path: Path, account: Account | None) -> None:
    """Make a file or directory of ours, which lies where only we may write, that of ``account``."""
    if account is None:
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def give_tree(top: Path, account: Account | None) -> None:
    """Make a kept data directory the property of ``account``, if it was another account's."""
    if account is None or (owner := top.lstat().st_uid) == account.uid:
        return
    # chown(1) works on held directories; what is not the former owner's was planted by it.
    whose = [f"--from={owner}", f"{account.uid}:{account.gid}"]
    done = run_as(None, ["chown", "-R", "-P", "--no-dereference", *whose, "--", top])
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(
            f"cannot change the owner of {top} to {account.name}: {said}", code="data-directory"
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
        )


def _look_up(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create() -> Account:
    """Make the system account ``pgdyno`` with whichever tool this system has, or use another's."""
    place = ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    commands = (
        ["useradd", "--system", "--user-group", "--no-create-home", *place, _OWN_NAME],
        ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", _OWN_NAME],  # BusyBox
    )
    said = "neither useradd nor adduser is installed"
    for command in commands:
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if account := _look_up(_OWN_NAME):  # Perhaps another pgdyno was quicker.
            return account
        said = done.stderr.strip() or f"{command[0]} ended with status {done.returncode}"
    if account := _look_up(_FALLBACK_NAME):
        return account
    raise SetupError(
        f"PostgreSQL does not run as root, and no account could be created for it: {said}",
        code="no-account",
        hint=f"run pgdyno as another user, or add a system account named {_OWN_NAME}",
    )
