"""A cluster of pgdyno's own: starts, restarts, dies with its owner, and explains itself."""

from __future__ import annotations

import psycopg
import pytest

from pgdyno.server import Cluster

pytestmark = pytest.mark.server


def test_takes_connections_through_socket_and_loopback(pg: Cluster) -> None:
    for conninfo in (pg.conninfo, pg.conninfo_tcp):
        with psycopg.connect(**conninfo.kwargs()) as conn:
            row = conn.execute("select current_database(), current_user").fetchone()
        assert row == ("pgdyno", "pgdyno")


def test_tcp_asks_for_the_password(pg: Cluster) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(**{**pg.conninfo_tcp.kwargs(), "password": "wrong"})
