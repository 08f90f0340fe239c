"""The watcher of a run whose metrics are offered to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.live._endpoint import Endpoint, open_endpoint
from pgdyno.spec.address import parse_address

if TYPE_CHECKING:
    from pgdyno.conduct import Tick, Watcher
    from pgdyno.record import Recorder


@contextmanager
def offering_metrics(watcher: Watcher, address: str) -> Iterator[Watcher]:
    """Listen on ``address`` and yield a watcher by which the endpoint follows each session.

    Raises SetupError if nothing can listen there.
    """
    with open_endpoint(parse_address(address)) as (endpoint, url):
        watcher.step(f"metrics at {url}")
        yield _Offering(watcher, endpoint)


class _Offering:
    """A watcher that passes on all it is given, and recorders also to the endpoint."""

    def __init__(self, watcher: Watcher, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._watcher = watcher
        self.phase = watcher.phase
        self.progress = watcher.progress
        self.step = watcher.step
        self.note = watcher.note

    def recording(self, recorder: Recorder) -> None:
        """Have the endpoint follow this recorder."""
        self._endpoint.follow(recorder)
        self._watcher.recording(recorder)

    def tick(self, tick: Tick) -> None:
        """Pass on an interval."""
        self._watcher.tick(tick)
