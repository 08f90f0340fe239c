"""The figures of a web server of the user's, from an endpoint in Prometheus' text format.

Known are the names that Micrometer gives (Spring Boot's ``/actuator/prometheus``), those of
HikariCP's own collector, and those of the JMX exporter, with its default rules or its example for
Tomcat. Names are compared without regard to case: the JMX exporter can be told either.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Mapping
from http.client import HTTPException

from pgdyno.errors import RunError, SetupError
from pgdyno.front._application import Rows

_ANSWER_S_MAX = 5.0
_BYTES_MAX = 8 << 20
_POOLS: tuple[Mapping[str, str], ...] = (
    {
        "pool_max": "hikaricp_connections_max",
        "pool_active": "hikaricp_connections_active",
        "pool_idle": "hikaricp_connections_idle",
        "pool_waiting": "hikaricp_connections_pending",
        "pool_refused": "hikaricp_connections_timeout_total",
    },
    {
        "pool_max": "hikaricp_max_connections",
        "pool_active": "hikaricp_active_connections",
        "pool_idle": "hikaricp_idle_connections",
        "pool_waiting": "hikaricp_pending_threads",
    },
    {
        "pool_max": "catalina_datasource_maxtotal",
        "pool_active": "catalina_datasource_numactive",
        "pool_idle": "catalina_datasource_numidle",
        "pool_waiting": "catalina_datasource_waitcount",
    },
    {
        "pool_max": "catalina_datasource_maxactive",
        "pool_active": "catalina_datasource_active",
        "pool_idle": "catalina_datasource_idle",
        "pool_waiting": "catalina_datasource_waitcount",
    },
    {
        "pool_max": "jdbc_connections_max",
        "pool_active": "jdbc_connections_active",
        "pool_idle": "jdbc_connections_idle",
        "pool_waiting": "commons_pool2_num_waiters",
    },
)
"""Columns of metric_front and names of figures, for each kind of pool; the first that is there."""
_THREADS: tuple[Mapping[str, str], ...] = (
    {
        "threads_max": "tomcat_threads_config_max_threads",
        "threads_busy": "tomcat_threads_busy_threads",
        "connections_open": "tomcat_connections_current_connections",
    },
    {
        "threads_max": "tomcat_threadpool_maxthreads",
        "threads_busy": "tomcat_threadpool_currentthreadsbusy",
        "connections_open": "tomcat_threadpool_connectioncount",
    },
    {
        "threads_max": "catalina_threadpool_maxthreads",
        "threads_busy": "catalina_threadpool_currentthreadsbusy",
        "connections_open": "catalina_threadpool_connectioncount",
    },
    {"threads_max": "jetty_threads_config_max", "threads_busy": "jetty_threads_busy"},
)
_KNOWN = "hikaricp_connections_*, jdbc_connections_*, tomcat_threads_*"

Labels = frozenset[tuple[str, str]]
Samples = Mapping[str, Mapping[Labels, float]]
"""Name in lower case → labels → value."""


class WebServerFigures:
    """An endpoint of figures. ``read`` may be called from another thread."""

    def __init__(self, url: str) -> None:
        """Read it once. Raises SetupError if it cannot be read, or has no figure that is known."""
        self._url = url
        try:
            row = row_of(self._fetched())
        except RunError as problem:
            raise SetupError(
                problem.message,
                code="front-metrics",
                hint="it must answer in Prometheus' text format, as /actuator/prometheus of Spring"
                " Boot and the JMX exporter do",
            ) from None
        if not row:
            raise SetupError(
                f"{url} has no figures of a pool of connections or of a connector's threads",
                code="front-metrics-unknown",
                hint=f"names that are known: {_KNOWN}, and those of the JMX exporter",
            )

    def read(self) -> tuple[int, Rows]:
        """Return the time of a reading, in monotonic ns, and its rows. Raises RunError."""
        asked_ns = time.monotonic_ns()
        row = row_of(self._fetched())
        middle_ns = (asked_ns + time.monotonic_ns()) // 2
        return middle_ns, {"metric_front": [row] if row else []}

    def _fetched(self) -> str:
        try:
            with urllib.request.urlopen(self._url, timeout=_ANSWER_S_MAX) as answer:
                text: bytes = answer.read(_BYTES_MAX + 1)
        except (OSError, HTTPException, ValueError) as problem:
            reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
            raise _unread(self._url, str(reason)) from None
        if len(text) > _BYTES_MAX:
            raise _unread(self._url, f"more than {_BYTES_MAX >> 20} MB")
        return text.decode(errors="replace")


def _unread(url: str, why: str) -> RunError:
    return RunError(f"{url} cannot be read: {why}", code="front-metrics-gone")


def row_of(text: str) -> dict[str, object]:
    """Return the columns of metric_front that a text has figures for. Raises RunError if it is not
    in Prometheus' format."""
    samples = _samples(text)
    return {
        **_first(samples, _POOLS),
        **_first(samples, _THREADS),
    }


def _samples(text: str) -> Samples:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name.lower()][frozenset(sample.labels.items())] = sample.value
    except (ValueError, IndexError, KeyError) as problem:
        raise RunError(
            f"the figures of the web server are not in Prometheus' text format: {problem}",
            code="front-metrics-format",
        ) from None
    return found


def _first(samples: Samples, kinds: Iterable[Mapping[str, str]]) -> dict[str, int | None]:
    """Return the columns of the first kind that has its largest and its present number: of several
    pools or connectors, those of the busiest."""
    for kind in kinds:
        most, now = (samples.get(name, {}) for name in (*kind.values(),)[:2])
        both = [labels for labels in now if labels in most and most[labels] > 0]
        if both:
            at = max(both, key=lambda labels: (now[labels] / most[labels], now[labels]))
            return {column: _value(samples.get(name, {}), at) for column, name in kind.items()}
    return {}


def _value(of: Mapping[Labels, float], labels: Labels) -> int | None:
    """Return the figure with these labels, or the only one."""
    value = of.get(labels, next(iter(of.values())) if len(of) == 1 else None)
    return None if value is None or value != value else round(value)
