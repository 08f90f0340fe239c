"""The process that serves one disk: ``python -m pgdyno.disk.daemon CONFIG_JSON FOLDER``.

It mounts the disk, says ``{"ok": …}``, and then does what each line on standard input asks for,
with a line in answer. It ends when the disk is unmounted. When standard input closes or the parent
changes, pgdyno is gone: it then has everything in FOLDER unmounted, by a process of its own, since
unmounting the file system waits for the last writes to be served here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgdyno._engine import DiskServer, EngineError

_PR_SET_TIMERSLACK = 29
_PR_SET_IO_FLUSHER = 57


def main(argv: list[str]) -> int:
    """Serve; the exit status."""
    config_json, folder = argv
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    _prepare_for_disk_work()
    try:
        server = DiskServer(config_json)
    except EngineError as error:
        _say({"error": error.message})
        return 1
    ended_r, ended_w = os.pipe()
    threading.Thread(target=_serve, args=(server, ended_w), name="disk").start()
    _say({"ok": None})
    _obey(server, parent, ended_r, folder)
    return 0


def _prepare_for_disk_work() -> None:
    """Keep the kernel from making us wait for our own disk when memory is short; sleep exactly."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _serve(server: DiskServer, ended: int) -> None:
    try:
        server.serve()
    finally:
        os.close(ended)


def _obey(server: DiskServer, parent: int, ended: int, folder: str) -> None:
    """Carry orders out until the disk is unmounted, or pgdyno gone."""
    poller = select.poll()
    for descriptor in (0, ended):
        poller.register(descriptor, select.POLLIN)
    orders = b""
    while True:
        # The timeout covers a copy of the pipe's far end in some other child of pgdyno's.
        ready = dict(poller.poll(1000))
        if ended in ready:
            return
        read = os.read(0, 65536) if 0 in ready else None
        if read == b"" or os.getppid() != parent:
            server.hurry()
            _dismantle(folder)
            return
        orders += read or b""
        while b"\n" in orders:
            line, _, orders = orders.partition(b"\n")
            _say(_carry_out(server, json.loads(line)))


def _carry_out(server: DiskServer, order: Mapping[str, str]) -> dict[str, Any]:
    try:
        match order["do"]:
            case "start":
                server.start_recording(Path(order["base"]), Path(order["log"]))
                return {"ok": None}
            case "stop":
                return {"ok": server.stop_recording()}
            case "fail":
                server.fail()
                return {"ok": None}
            case _:
                server.hurry()
                return {"ok": None}
    except EngineError as error:
        return {"error": error.message, "hint": error.hint}


def _say(answer: Mapping[str, Any]) -> None:
    # Without a reader pgdyno is gone, which its end of the other pipe tells too.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def _dismantle(folder: str) -> None:
    command = [sys.executable, "-m", "pgdyno.disk", folder]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
