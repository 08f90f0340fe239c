"""Cells that no machine's speed decides, each as the exam carries it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pgdyno.server import Installation

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("name", "version", "right"),
    [
        ("commit-wait/slow-flush", 18, "commit-flush"),
        ("commit-wait/standby", 15, "sync-replication"),
        ("lock-queue/hot-row", 18, "hot-row"),
    ],
)
def test_an_injected_fault_is_proved_and_named(
    answer_to: Callable[..., dict[str, Any]],
    installation_of: Callable[[int], Installation],
    name: str,
    version: int,
    right: str,
) -> None:
    installation_of(version)  # skips the test where this machine has none
    answer = answer_to(name, version)
    assert answer["proved"], answer
    assert answer["owned"] > 0.2, answer
    assert answer["rank1"] == right, answer


def test_a_small_pool_is_found(
    answer_to: Callable[..., dict[str, Any]], installation_of: Callable[[int], Installation]
) -> None:
    """More connections gain what idle cores allow: its rank is decided by neighbours too."""
    installation_of(15)
    answer = answer_to("few-at-once/client-pool", 15)
    assert answer["proved"], answer
    assert answer["owned"] > 0.2, answer
    assert "client-pool" in answer["found"], answer
