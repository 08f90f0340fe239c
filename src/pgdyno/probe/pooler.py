"""The sampler of a pooler's own queues, once a second on the run's clock.

It has a thread of its own, so that a pooler that does not answer delays no other probe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pgdyno.probe._own_thread import OwnThread
from pgdyno.record import Recorder

Queues = Callable[[], Iterable[Mapping[str, Any]]]


class PoolerSampler(OwnThread):
    """Write metric_pooler from ``queues``, while there are any."""

    def __init__(self, queues: Queues, recorder: Recorder) -> None:
        super().__init__("pooler", recorder)
        self._queues = queues

    def sample(self) -> None:
        """Write the queues."""
        rows = list(self._queues())
        if rows:
            self._recorder.add_rows("metric_pooler", rows)
