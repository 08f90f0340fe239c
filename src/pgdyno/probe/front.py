"""The sampler of a front end's own counts, once a second on the run's clock.

Each answer of pgdyno's application is stamped by it on the monotonic clock that pgdyno reads too;
the figures of a web server of the user's, with the middle of the time that reading them took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdyno.probe._own_thread import OwnThread
from pgdyno.record import Recorder

Read = Callable[[], tuple[int, Mapping[str, Sequence[Mapping[str, Any]]]]]
"""Returns the time of a reading, in monotonic ns, and its rows by metric table."""


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
