"""The process of a front end, from its start to its end, and the probe within it.

Its directory is one of those that are swept after a crash of pgdyno:

    PID-RANDOM/          lock, cluster.json, the jar, front.log
    PID-RANDOM/socket/   properties, the probe's socket: mode 0700, of the account that runs it

The probe answers a line with a line of JSON, on its Unix socket.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from pgdyno.errors import Interrupted, RunError, SetupError
from pgdyno.front._java import Java
from pgdyno.front._settings import FrontSettings, properties_text
from pgdyno.json_types import Json
from pgdyno.redact import blank
from pgdyno.server import ConnInfo
from pgdyno.server.local.account import server_account
from pgdyno.server.local.guarded import Guarded, log_text
from pgdyno.server.local.layout import claim_directory, describe, make_socket_dir
from pgdyno.server.local.safefiles import remove_own_directory, write_text

ANSWER_S_MAX = 30.0
"""An application that does not answer in this time hangs; a pause for garbage is far shorter."""
_READY_S_MAX = 120.0
"""It takes two seconds of CPU; a machine that is busy gives them slowly."""
_POLL_S = 0.02
_STOP_S_MAX = 10.0
_END_KNOWN_S_MAX = 5.0
_LOG_BYTES_MAX = 64 << 10
_SAID = "front: "
"""The beginning of the line in which the application says why it ends."""


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


class FrontEnd:
    """A running front end. ``close`` ends it and removes its directory."""

    def __init__(self, java: Java, jar: Path, server: ConnInfo, settings: FrontSettings) -> None:
        """Start it, and wait until its probe answers. Raises SetupError."""
        properties = settings.properties(server)
        self._settings = settings
        self._process: Guarded | None = None
        self._probe: Probe | None = None
        self._directory, self._lock = claim_directory(None)
        self._place = self._directory / "socket"
        try:
            self._place = make_socket_dir(self._directory)
            describe(self._directory, {"socket_dir": str(self._place)})
            write_text(self._place / "front.properties", properties_text(properties))
            self._process = self._launch(java, self._own_copy(jar))
            self._probe = self._wait_ready()
            self._description = self._probe.describe()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Its address, with a slash at the end."""
        return str(self._description["url"])

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return urlsplit(self.url).port or 0

    @property
    def pages(self) -> dict[str, str]:
        """Titles of the pages, by path."""
        return dict(self._description["pages"])

    @property
    def parts(self) -> dict[str, str]:
        """Names and versions of its parts: ``pool``, ``tomcat``, ``pgjdbc``, ``java``."""
        return {name: str(self._description[name]) for name in ("pool", "tomcat", "pgjdbc", "java")}

    @property
    def pid(self) -> int:
        """PID of the virtual machine."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of its log, without passwords."""
        path = self._directory / "front.log"
        return blank(log_text(path, bytes_max=_LOG_BYTES_MAX)) if path.exists() else ""

    def read(self) -> Json:
        """Return all gauges and counts. Raises RunError if it has ended, or hangs."""
        assert self._probe is not None
        self.check()
        try:
            return self._probe.read()
        except RunError:
            # One that has just ended closes its socket before its end is known.
            if self._process is not None and self._process.wait_exit(_END_KNOWN_S_MAX):
                self.check()
            raise

    def set(self, name: str, value: int) -> Json:
        """Change a limit while it runs; return what :meth:`read` does afterwards."""
        assert self._probe is not None
        self.check()
        return self._probe.set(name, value)

    def renew(self) -> Json:
        """Replace each connection of the pool when it is to be lent; return what :meth:`read` does
        afterwards."""
        assert self._probe is not None
        self.check()
        return self._probe.renew()

    def check(self) -> None:
        """Raise RunError if it has ended by itself, or is stopped by a signal."""
        process = self._process
        if process is None:
            return
        if not process.running:
            raise RunError(
                f"the front end {process.how_it_ended} during the run: {self._last_words()}",
                code="front-gone",
            )
        if process.is_suspended():
            raise RunError(
                f"the front end (process {process.pid}) is stopped by a signal and answers nobody",
                code="front-suspended",
                hint=f"kill -CONT {process.pid} would have let it continue",
            )

    def close(self) -> None:
        """End it and remove its directory. May be repeated."""
        if self._lock < 0:
            return
        try:
            self._end_and_remove()
        except Interrupted:  # Further stop signals are ignored after the first.
            self._end_and_remove()
            raise
        finally:
            os.close(self._lock)
            self._lock = -1

    def _end_and_remove(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.close()
        process, self._process = self._process, None
        if process is not None:
            with suppress(SetupError):  # One that hangs has been killed.
                process.stop(signal.SIGTERM, seconds_max=_STOP_S_MAX)
        if self._place.parent != self._directory:
            remove_own_directory(self._place)
        remove_own_directory(self._directory)

    def _own_copy(self, jar: Path) -> Path:
        """Copy the jar to where the account that runs it can read it; root's home is closed."""
        copy = self._directory / jar.name
        try:
            shutil.copyfile(jar, copy)
        except OSError as problem:
            raise SetupError(
                f"{jar} cannot be copied: {problem.strerror}", code="front-jar-copy"
            ) from None
        copy.chmod(0o644)
        return copy

    def _launch(self, java: Java, jar: Path) -> Guarded:
        options = [
            f"-Xmx{self._settings.heap}",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",  # It would leave a file in /tmp when it is killed.
            f"-Djava.io.tmpdir={self._place}",
            f"-Dpgdyno.directory={self._directory}",  # By which a sweep knows it.
        ]
        return Guarded(
            [java.program, *options, "-jar", str(jar), str(self._place / "front.properties")],
            self._directory / "front.log",
            server_account(),
            end_signal=signal.SIGKILL,
            removes=self._directory,
        )

    def _wait_ready(self) -> Probe:
        assert self._process is not None
        deadline = time.monotonic() + _READY_S_MAX
        while self._process.running:
            with suppress(OSError):
                return Probe(self._place / "probe")
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the front end was not ready within {_READY_S_MAX:.0f} s:"
                    f" {self._last_words()}",
                    code="front-silent",
                )
            time.sleep(_POLL_S)
        raise self._not_started()

    def _not_started(self) -> SetupError:
        said = self._last_words()
        if "cannot listen on" in said:
            return SetupError(
                f"the front end {said}",
                code="front-port",
                hint="choose another port; 0 is a free one",
            )
        return SetupError(f"the front end did not start: {said}", code="front-start")

    def _last_words(self) -> str:
        """Return the reason that it gave for its end, or the last line of its log."""
        lines = self.log.strip().splitlines()
        said = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
        return next(iter(said[-1:] or lines[-1:]), "it logged nothing")
