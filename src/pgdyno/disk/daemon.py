"""The process that serves one disk: ``python -m pgdyno.disk.daemon CONFIG_JSON DIRECTORY``.

It mounts the disk, writes ``{"ok": …}``, and then carries out the request in each line of standard
input, with a line in reply. It ends when the disk is unmounted. When standard input is closed or
the parent changes, pgdyno has ended: then everything in DIRECTORY is unmounted, by a separate
process, since unmounting the file system waits for the last writes to be served here.
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

from pgdyno._engine import DiskServer, EngineError
from pgdyno.json_types import Json

_PR_SET_TIMERSLACK = 29
_PR_SET_IO_FLUSHER = 57


def main(argv: list[str]) -> int:
    """Serve the disk; return the exit status."""
    config_json, directory = argv
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    _prepare_for_disk_work()
    try:
        server = DiskServer(config_json)
    except EngineError as error:
        _reply({"error": error.message})
        return 1
    ended_r, ended_w = os.pipe()
    threading.Thread(target=_serve, args=(server, ended_w), name="disk").start()
    _reply({"ok": None})
    _serve_requests(server, parent, ended_r, directory)
    return 0


def _prepare_for_disk_work() -> None:
    """Prevent waiting for the own disk when memory is short; make sleeps exact."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _serve(server: DiskServer, ended: int) -> None:
    try:
        server.serve()
    finally:
        os.close(ended)


def _serve_requests(server: DiskServer, parent: int, ended: int, directory: str) -> None:
    """Carry out requests until the disk is unmounted or pgdyno has ended."""
    poller = select.poll()
    for descriptor in (0, ended):
        poller.register(descriptor, select.POLLIN)
    requests = b""
    while True:
        # The timeout is for a copy of the pipe's other end in another child of pgdyno.
        ready = dict(poller.poll(1000))
        if ended in ready:
            return
        read = os.read(0, 65536) if 0 in ready else None
        if read == b"" or os.getppid() != parent:
            server.hurry()
            _dismantle(directory)
            return
        requests += read or b""
        while b"\n" in requests:
            line, _, requests = requests.partition(b"\n")
            _reply(_carry_out(server, json.loads(line)))


def _carry_out(server: DiskServer, request: Mapping[str, str]) -> dict[str, object]:
    try:
        match request["do"]:
            case "start":
                server.start_recording(Path(request["base"]), Path(request["log"]))
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


def _reply(answer: Json) -> None:
    # Without a reader pgdyno has ended, which is also seen on standard input.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def _dismantle(directory: str) -> None:
    command = [sys.executable, "-m", "pgdyno.disk", directory]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
