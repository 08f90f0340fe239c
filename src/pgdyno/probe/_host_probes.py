"""The probes of a load whose database server is not known: the machine that pgdyno runs on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.probe._host_sampler import HostSampler
from pgdyno.probe._missing import Missing
from pgdyno.probe._probes import SAMPLE_EVERY_S
from pgdyno.record import Recorder

NO_DATABASE = "no database server was named"


class HostProbes:
    """Sample the machine once a second, as :class:`Probes` does beside the server."""

    def __init__(self, recorder: Recorder) -> None:
        self._missing = Missing(recorder)
        self._missing.add("server", NO_DATABASE)
        self._missing.add("space", NO_DATABASE)
        self._host = HostSampler(
            recorder, self._missing, local=True, postmaster_pid=None, data_dir=None, space=None
        )
        self._stopping = threading.Event()
        self._sampling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pgdyno-probe", daemon=True)

    silent_s = 0.0
    """Nothing is asked that could be silent."""

    @property
    def missing(self) -> dict[str, str]:
        """Reason by missing probe."""
        return self._missing.reasons()

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. May be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def sample_now(self) -> None:
        """Take a sample, before it returns."""
        with self._sampling:
            self._host.sample(None, full=True)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Do nothing: there is no server that is restarted."""
        yield

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_EVERY_S):
            with self._sampling:
                self._host.sample(None, full=False)
