"""The probe within a front end: a line asked and a line of JSON answered, on its Unix socket."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

from pgdyno.errors import RunError, SetupError
from pgdyno.json_types import Json

ANSWER_S_MAX = 30.0
"""An application that does not answer in this time hangs; a pause for garbage is far shorter."""


class Probe:
    """A connection to a front end's probe. Threads take turns."""

    def __init__(self, path: Path) -> None:
        """Connect. Raises OSError while nothing listens there."""
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(ANSWER_S_MAX)
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")
        self._turn = threading.Lock()

    def describe(self) -> Json:
        """Return its address, its pages and its parts."""
        return self._ask("describe")

    def read(self) -> Json:
        """Return all gauges and counts, stamped ``at_ns`` on the monotonic clock."""
        return self._ask("read")

    def set(self, name: str, value: int) -> Json:
        """Change a limit, such as ``pool.max``; return what :meth:`read` does afterwards."""
        return self._ask(f"set {name} {value}")

    def renew(self) -> Json:
        """Replace each connection of the pool when it is to be lent; return what :meth:`read` does
        afterwards."""
        return self._ask("renew")

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def _ask(self, line: str) -> Json:
        try:
            with self._turn:
                self._socket.sendall(f"{line}\n".encode())
                answer = self._answers.readline()
        except (OSError, ValueError) as problem:  # ValueError: it has been closed meanwhile.
            raise _silent(str(problem)) from None
        if not answer.endswith(b"\n"):
            raise _silent("it closed the connection")
        fields: Json = json.loads(answer)
        if (message := fields.get("error")) is not None:
            raise SetupError(
                f"the front end refused {line}: {message}",
                code="front-limit",
                hint="a pool's size and waits have bounds of their own",
            )
        return fields


def _silent(why: str) -> RunError:
    return RunError(
        f"the probe of the front end does not answer: {why}",
        code="front-probe",
        hint="the application hangs, or has no memory or CPU left",
    )
