"""Readings of a front end, which ``pgdyno front`` prints each second."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part


class FrontTimes(Part):
    """Means of the requests that ended in the interval, in milliseconds; their sum is the time
    within the application, without that of the connector and the network"""

    pool_ms: float
    """Waiting for a connection, its validation, its return"""
    database_ms: float
    """From a statement sent to its rows read"""
    application_ms: float


class FrontPage(Part):
    path: str
    requests: int
    failed: int


class FrontPool(Part):
    name: str
    max: int
    idle_max: int
    wait_ms_max: int
    """-1: without limit"""
    active: int
    idle: int
    waiting: int
    """Requests that wait for a connection now"""
    created: int
    """Connections made in the interval"""
    refused: int
    """Requests in the interval that got no connection in time"""


class FrontConnector(Part):
    threads_max: int
    threads_busy: int
    queue: int
    """Requests for which there is no thread"""
    connections: int


class FrontJvm(Part):
    cores: float
    """CPU time in the interval, as a number of cores"""
    heap_bytes: int
    collection_s: float
    """Garbage collection in the interval"""
    compile_s: float
    """Compilation in the interval: a front end that compiles is not warm yet"""


class FrontReading(Part):
    """An interval of a front end"""

    model_config = ConfigDict(title="pgdyno front: a reading")

    schema_version: Literal[1]
    url: str
    at_s: float
    """Since the front end was ready"""
    requests_s: float
    failed: int
    times: FrontTimes | None
    """null: no request ended"""
    pages: tuple[FrontPage, ...]
    """Those with requests in the interval"""
    pool: FrontPool
    connector: FrontConnector
    jvm: FrontJvm
