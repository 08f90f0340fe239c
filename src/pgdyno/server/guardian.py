"""Stands between pgdyno and one postmaster, so that the server never outlives pgdyno.

Run as a script, never imported: ``python -I -S guardian.py UID GID POSTGRES ARGUMENT…`` with
standard input and output piped to pgdyno and the server's log as standard error. It forks the
postmaster, writes ``PID\\n``, sends each signal whose number arrives as a line, and exits with the
postmaster's status when that ends.

When standard input closes or the parent changes, pgdyno is gone (kill -9 included): the postmaster
gets SIGQUIT (immediate shutdown) and, if it lingers, SIGKILL, upon which its children leave by
themselves. Should the guardian be killed too, the kernel sends the postmaster SIGQUIT; that is why
it has to be single-threaded: a parent-death signal fires when the forking *thread* ends. It runs in
a session of its own, out of reach of the terminal's Ctrl-C. UID -1 keeps the present user.

Imports only the standard library, and little of it, for it starts with every server.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    uid, gid, *command = argv
    parent = os.getppid()
    wakeup = _wake_on_signals()
    postmaster = os.fork()
    if postmaster == 0:
        _become_postmaster(int(uid), int(gid), command)
    _tell(f"{postmaster}\n")
    return _watch(postmaster, parent, wakeup)


def _wake_on_signals() -> int:
    """Turn SIGCHLD and SIGTERM into readable bytes; ignore what a terminal sends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return readable


def _become_postmaster(uid: int, gid: int, command: list[str]) -> None:
    guardian = os.getppid()
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        if uid >= 0:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        # After setuid, which clears it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
        os.umask(0o077)
        if os.getppid() == guardian:
            os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"FATAL:  cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, line.encode())


def _watch(postmaster: int, parent: int, wakeup: int) -> int:
    """Pass signals on until the postmaster ends; end it when pgdyno is gone."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(wakeup, select.POLLIN)
    kill_at = None
    while (status := _reap(postmaster)) is None:
        # The timeout covers a copy of the pipe's far end kept open by some other child of pgdyno.
        ready = dict(poller.poll(1000 if kill_at is None else 100))
        orders = os.read(0, 4096) if 0 in ready else None
        woken = os.read(wakeup, 64) if wakeup in ready else b""
        abandoned = orders == b"" or os.getppid() != parent or signal.SIGTERM in woken
        if kill_at is None and abandoned:
            kill_at = time.monotonic() + _GRACE_S
            _send(postmaster, signal.SIGQUIT)
        if orders == b"":
            poller.unregister(0)
        for number in (orders or b"").split():
            _send(postmaster, int(number))
        if kill_at is not None and time.monotonic() > kill_at:
            _send(postmaster, signal.SIGKILL)
    return status


def _send(postmaster: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(postmaster, number)


def _reap(postmaster: int) -> int | None:
    """The exit status as a shell gives it, or ``None`` while the postmaster runs."""
    pid, status = os.waitpid(postmaster, os.WNOHANG)
    if pid == 0:
        return None
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
