"""The unprivileged account that runs PostgreSQL when pgdyno itself is root.

PostgreSQL refuses to run as root. The account is, in this order: ``postgres`` when the system has
it, ``pgdyno`` when an earlier run made it, else ``pgdyno`` made now. ``nobody`` is left alone:
other services share it, and the server trusts its own account over the Unix socket.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import SetupError

_OWN_NAME = "pgdyno"


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
    for name in ("postgres", _OWN_NAME):
        if account := _look_up(name):
            return account
    return _create()


def run_as(
    account: Account | None,
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    seconds_max: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short command under ``account``, in a neutral directory and locale, output captured.

    One that runs longer than ``seconds_max`` is killed, and subprocess.TimeoutExpired raised.
    """
    return subprocess.run(
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


def plain_environment() -> dict[str, str]:
    """An environment for PostgreSQL's programs: no PG* variables, messages in English."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def give(path: Path, account: Account | None) -> None:
    """Make ``path`` the property of ``account``."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def give_tree(top: Path, account: Account | None) -> None:
    """Make a data directory and all in it the property of ``account``, closed to others.

    Nothing is touched that is so already; links are not followed.
    """
    if account is not None and top.stat().st_uid != account.uid:
        for folder, folders, files in os.walk(top):
            for name in (".", *folders, *files):
                os.chown(Path(folder, name), account.uid, account.gid, follow_symlinks=False)
    if top.stat().st_mode & 0o077:
        top.chmod(0o700)


def can_enter(directory: Path) -> bool:
    """Whether the account that runs servers can enter ``directory``."""
    account = server_account()
    if account is None:
        return os.access(directory, os.X_OK)
    return run_as(account, ["/bin/sh", "-c", 'cd "$1"', "sh", directory]).returncode == 0


def require_reach(directory: Path) -> None:
    """Raise SetupError when the account that runs servers cannot enter ``directory``."""
    account = server_account()
    if account is not None and not can_enter(directory):
        raise SetupError(
            f"PostgreSQL runs as {account.name} here, who cannot enter {directory}",
            code="state-directory",
            hint="PGDYNO_HOME=/var/tmp/pgdyno, for example, is a place that it can",
        )


def _look_up(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create() -> Account:
    """Make the system account ``pgdyno`` with whichever tool this system has."""
    commands = (
        ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _OWN_NAME],
        ["adduser", "-S", "-D", "-H", _OWN_NAME],  # BusyBox
    )
    said = "there is neither useradd nor adduser"
    for command in commands:
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if account := _look_up(_OWN_NAME):
            return account
        said = done.stderr.strip() or f"{command[0]} ended with status {done.returncode}"
    raise SetupError(
        f"PostgreSQL does not run as root, and no account could be made for it: {said}",
        code="no-account",
        hint="run pgdyno as another user, or add a system account named postgres",
    )
