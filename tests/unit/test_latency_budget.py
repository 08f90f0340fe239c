"""The parts of the response time that own a share of the queues."""

from __future__ import annotations

import pytest

from pgdyno.facts.budget import ResponseTimeBudget

BEHIND = ResponseTimeBudget(100.0, {"queue": 90.0, "connecting": 7.0, "running": 3.0})


def test_a_backlog_is_as_long_as_the_whole_time_of_those_ahead() -> None:
    assert BEHIND.owned_share(["connecting"], ()) == pytest.approx(0.7)
    assert BEHIND.owned_share(["running"], ()) == pytest.approx(0.3)
    assert BEHIND.own_share("connecting") == pytest.approx(0.7)


def test_a_backlog_with_a_finding_of_its_own_is_owned_by_that() -> None:
    assert BEHIND.owned_share(["connecting"], ["queue"]) == pytest.approx(0.07)
    assert BEHIND.owned_share(["queue"], ["queue"]) == pytest.approx(0.9)


def test_a_queue_for_a_connection_is_as_long_as_the_service_of_those_ahead() -> None:
    pooled = ResponseTimeBudget(100.0, {"queue": 50.0, "pool wait": 40.0, "running": 10.0})
    assert pooled.owned_share(["running"], ()) == pytest.approx(1.0)
    assert pooled.owned_share(["running"], ["pool wait", "queue"]) == pytest.approx(0.1)
