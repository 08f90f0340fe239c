"""What a check finds by sampled waits."""

from __future__ import annotations

import pytest
from test_check import checked, connected, waiting_for

from pgdyno.server import Cluster

pytestmark = pytest.mark.server


def test_one_session_that_is_stuck_is_no_light_load(pg18: Cluster) -> None:
    with connected(pg18) as conn:
        conn.execute("create table stuck (n int); insert into stuck values (1)")
        with waiting_for(pg18, "stuck", 1):
            result = checked(pg18)
        conn.execute("drop table stuck")
    # Of a light load it would be cleared.
    assert "idle-in-transaction" in {each.id for each in result.findings}
