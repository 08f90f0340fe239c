"""The guardian process of one postmaster: ends the server when pgdyno ends.

Run as a script, never imported: ``python -I -S guardian.py UID GID SIGNAL DIRECTORY PROGRAM
ARGUMENT…`` with standard input and output piped to pgdyno and the server's log as standard error.
It forks the postmaster, writes ``PID\\n``, sends each signal whose number arrives as a line, and
exits with the postmaster's status when that ends.

When standard input closes or the parent changes, pgdyno has ended (perhaps by kill -9): the
postmaster gets SIGNAL (SIGQUIT: immediate shutdown), and stopped processes get SIGCONT so that they
handle it. Processes that do not end are killed. The guardian is the subreaper of the server: a
process that loses its parent becomes the guardian's child, so that it knows all of them, also those
of an archive command. Once the postmaster has ended, for any reason, no process of it remains. If
the end of pgdyno was the reason, and not the order 0, ``_removal.py`` then removes DIRECTORY,
unless that is empty. Poolers run in the same way.

If the guardian is killed too, the kernel sends SIGNAL to the postmaster. This requires a
single-threaded guardian: a parent-death signal is sent when the forking *thread* ends. The guardian
runs in its own session, unaffected by Ctrl-C in the terminal. UID -1 keeps the current user.

It imports little of the standard library and nothing else, because it starts with every server.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_GRACE_S = 3.0
"""Time for an immediate shutdown."""
_ORPHAN_GRACE_S = 1.0
"""Time for processes to notice that their postmaster has ended."""
_KILL_S_MAX = 30.0
"""Time to wait after SIGKILL: a process that waits for a disk ends only after the I/O."""
_POLL_S = 0.02
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(argv: list[str]) -> int:
    uid, gid, end_signal, directory, *command = argv
    parent = os.getppid()
    wakeup = _wake_on_signals()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    postmaster = os.fork()
    if postmaster == 0:
        _become_postmaster(int(uid), int(gid), int(end_signal), command)
    _write_line(f"{postmaster}\n")
    status, abandoned, told = _watch(postmaster, parent, wakeup, int(end_signal))
    _end_orphans(0.0 if abandoned else _ORPHAN_GRACE_S)
    if directory and abandoned and not told:
        _begin_removal(directory)
    return status


def _wake_on_signals() -> int:
    """Turn SIGCHLD and SIGTERM into readable bytes; ignore a terminal's signals."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return readable


def _become_postmaster(uid: int, gid: int, end_signal: int, command: list[str]) -> None:
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
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, end_signal, 0, 0, 0)
        os.umask(0o077)
        if os.getppid() == guardian:
            os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"FATAL:  cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _begin_removal(directory: str) -> None:
    """Start the removal of a directory, which outlives this process."""
    script = f"{os.path.dirname(os.path.realpath(__file__))}/_removal.py"  # noqa: PTH120
    if os.fork() == 0:
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            os.execv(sys.executable, [sys.executable, "-I", script, directory])
        finally:
            os._exit(127)


def _write_line(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, line.encode())


def _watch(postmaster: int, parent: int, wakeup: int, end_signal: int) -> tuple[int, bool, bool]:
    """Forward signals until the postmaster ends; end it when pgdyno has ended.

    Returns the postmaster's exit status, True if pgdyno has ended, and True if that was told by
    the order 0.
    """
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(wakeup, select.POLLIN)
    kill_at, told = None, False
    while (status := _reap(postmaster)) is None:
        # The timeout is for the case that another child of pgdyno keeps the pipe's far end open.
        ready = dict(poller.poll(1000 if kill_at is None else 100))
        orders = os.read(0, 4096) if 0 in ready else None
        woken = os.read(wakeup, 64) if wakeup in ready else b""
        abandoned = orders == b"" or os.getppid() != parent or signal.SIGTERM in woken
        if kill_at is None and abandoned:
            kill_at = time.monotonic() + _GRACE_S
            _send(postmaster, end_signal)
            _send_all(signal.SIGCONT)
        if orders == b"":
            poller.unregister(0)
        for number in map(int, (orders or b"").split()):
            told = told or number == 0
            _send(postmaster, number)
        if kill_at is not None and time.monotonic() > kill_at:
            _send_all(signal.SIGKILL)
    return status, kill_at is not None, told


def _end_orphans(grace_s: float) -> None:
    """Wait until all processes of the server have ended; kill them after ``grace_s``."""
    began = time.monotonic()
    while _any_left() and (waited_s := time.monotonic() - began) < _KILL_S_MAX:
        if waited_s >= grace_s:
            _send_all(signal.SIGKILL)
        time.sleep(_POLL_S)


def _any_left() -> bool:
    """Reap children that have ended; True if any other is left."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _send_all(number: int) -> None:
    """Send a signal to all descendants."""
    for pid in _descendants():
        _send(pid, number)


def _descendants() -> list[int]:
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    parents = {pid: _parent(pid) for pid in pids}
    found = [os.getpid()]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


def _parent(pid: int) -> int:
    """Return the parent's PID; 0 for a process that has ended."""
    try:
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return int(os.read(stat, 4096).rpartition(b")")[2].split()[1])
        finally:
            os.close(stat)
    except OSError:
        return 0


def _reap(postmaster: int) -> int | None:
    """Return the postmaster's exit status as a shell gives it, or ``None`` while it runs.

    Other children that have ended are reaped too.
    """
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == postmaster:
                status = os.waitstatus_to_exitcode(ended)
    return status if status is None or status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
