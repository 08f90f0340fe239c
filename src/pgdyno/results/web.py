"""The part of a result that has a web server's requests beside the database's work."""

from __future__ import annotations

from pgdyno.results.common import Latency, Part


class DatabaseBehind(Part):
    """Work of the database for the requests"""

    transactions_s: float | None
    """Committed per second, all of the database's; null: not recorded"""
    ms_per_request: float | None
    """Time with the database by the web application's own clock; null: not of a front end that
    pgdyno started"""
    statements_per_request: float | None
    sessions_at_work: float | None
    """Client sessions in a transaction, on average; null: not recorded"""


class FrontBehind(Part):
    """Work of a front end that pgdyno started, by its own counts"""

    pool: str
    pool_max: int
    pool_active: float
    """Connections lent, on average"""
    pool_waiting: float
    """Requests that wait for a connection, on average"""
    pool_ms: float
    """Wait of a request for a connection"""
    application_ms: float
    threads_busy: float
    threads_max: int
    jvm_cores: float
    collecting: float
    """Part of the time in which the garbage collector stopped the application"""


class WebSide(Part):
    """Requests and what is behind them, over some slices"""

    requests_s: float
    latency_ms: Latency
    """Response time of the clients' transactions, from the intended time"""
    front: FrontBehind | None
    """null: pgdyno started no front end, or its counts were not recorded"""
    database: DatabaseBehind | None
    """null: the database is not known"""


class Web(Part):
    """The load by HTTP at the start and at the end"""

    before: WebSide
    after: WebSide | None
    """With everything kept; null: nothing was kept, or not measured together"""
