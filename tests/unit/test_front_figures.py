"""Figures of a web server of the user's: which names are known, and what cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from pgdyno.errors import RunError, SetupError
from pgdyno.front import WebServerFigures
from pgdyno.front._figures import row_of

SPRING = """\
# HELP hikaricp_connections_active Active connections
# TYPE hikaricp_connections_active gauge
hikaricp_connections_active{pool="reports"} 1.0
hikaricp_connections_active{pool="shop"} 8.0
hikaricp_connections_idle{pool="shop"} 0.0
hikaricp_connections_max{pool="reports"} 10.0
hikaricp_connections_max{pool="shop"} 8.0
hikaricp_connections_pending{pool="reports"} 0.0
hikaricp_connections_pending{pool="shop"} 41.0
# TYPE hikaricp_connections_timeout_total counter
hikaricp_connections_timeout_total{pool="shop"} 3.0
jdbc_connections_max{name="dataSource"} 8.0
jdbc_connections_active{name="dataSource"} 8.0
tomcat_threads_busy_threads{name="http-nio-8080"} 49.0
tomcat_threads_config_max_threads{name="http-nio-8080"} 200.0
"""
EXPORTER = """\
# TYPE Catalina_DataSource_numActive untyped
Catalina_DataSource_numActive{name="jdbc/shop",context="/"} 5.0
Catalina_DataSource_numIdle{name="jdbc/shop",context="/"} 3.0
Catalina_DataSource_maxTotal{name="jdbc/shop",context="/"} 8.0
tomcat_threadpool_currentthreadsbusy{port="8080",protocol="http-nio"} 7.0
tomcat_threadpool_maxthreads{port="8080",protocol="http-nio"} 25.0
"""
COMMONS = """\
jdbc_connections_max{name="dataSource"} 8
jdbc_connections_active{name="dataSource"} 8
commons_pool2_num_waiters{name="pool",type="GenericObjectPool"} 4
"""


def test_of_several_pools_the_busiest_is_read() -> None:
    assert row_of(SPRING) == {
        "pool_max": 8,
        "pool_active": 8,
        "pool_idle": 0,
        "pool_waiting": 41,
        "pool_refused": 3,
        "threads_max": 200,
        "threads_busy": 49,
        "connections_open": None,
    }


def test_the_names_of_the_jmx_exporter_are_known_in_either_case() -> None:
    lower = EXPORTER.lower()
    told = {"pool_max": 8, "pool_active": 5, "pool_idle": 3, "pool_waiting": None}
    threads = {"threads_max": 25, "threads_busy": 7, "connections_open": None}
    assert row_of(EXPORTER) == row_of(lower) == told | threads


def test_waiters_of_the_only_commons_pool_belong_to_the_data_source() -> None:
    assert row_of(COMMONS)["pool_waiting"] == 4


@pytest.mark.parametrize(
    "text", ["<html></html>", '{"a": 1}', "hikaricp_connections_max{"], ids=["html", "json", "cut"]
)
def test_another_format_is_refused(text: str) -> None:
    with pytest.raises(RunError, match="not in Prometheus' text format"):
        row_of(text)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, CollectorRegistry]]:
    registry = CollectorRegistry()
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"http://127.0.0.1:{server.server_port}/", registry
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_endpoint_is_read_from_its_first_answer_on(
    endpoint: tuple[str, CollectorRegistry],
) -> None:
    url, registry = endpoint
    with pytest.raises(SetupError, match="has no figures of a pool") as unknown:
        WebServerFigures(url)
    assert unknown.value.code == "front-metrics-unknown"
    for name, value in (("max", 4), ("active", 3), ("pending", 0)):
        Gauge(f"hikaricp_connections_{name}", "-", registry=registry).set(value)
    at_ns, rows = WebServerFigures(url).read()
    assert at_ns > 0
    (row,) = rows["metric_front"]
    assert (row["pool_max"], row["pool_active"], row["pool_waiting"]) == (4, 3, 0)


def test_an_endpoint_that_does_not_answer_is_refused() -> None:
    with pytest.raises(SetupError, match=r"cannot be read: .*refused") as refused:
        WebServerFigures("http://127.0.0.1:1/metrics")
    assert refused.value.code == "front-metrics"
