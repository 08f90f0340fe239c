"""Samplers of what stands between clients and server, once a second on the run's clock: the queues
of a pooler, and a front end's own counts.

Each has a thread of its own, so that one that does not answer delays no other probe. Each answer of
pgdyno's application is stamped by it on the monotonic clock that pgdyno reads too; the figures of a
web server of the user's, with the middle of the time that reading them took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pgdyno.probe._own_thread import OwnThread
from pgdyno.record import Recorder
from pgdyno.shapes import Row

Queues = Callable[[], Iterable[Row]]
Read = Callable[[], tuple[int, Mapping[str, Sequence[Row]]]]
"""Returns the time of a reading, in monotonic ns, and its rows by metric table."""


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


class FrontSampler(OwnThread):
    """Write metric_front, metric_front_page and metric_jvm."""

    def __init__(self, read: Read, recorder: Recorder) -> None:
        super().__init__("front", recorder)
        self._read = read

    def sample(self) -> None:
        """Write one reading."""
        at_ns, rows = self._read()
        for table, of_table in rows.items():
            self._recorder.add_rows(table, of_table, ns=at_ns)
