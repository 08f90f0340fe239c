"""Fixtures of the tests on real servers."""

from __future__ import annotations

import pytest


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials and searches that measure for a moment only, where no figure is judged."""
    monkeypatch.setattr("pgdyno.search.measuring._SLICE_SECONDS", (0.3, 0.3))
    monkeypatch.setattr("pgdyno.search.measuring._HOLD_SECONDS", (1.0, 1.0))
    monkeypatch.setattr("pgdyno.search.pool.PROBE_SECONDS", 0.3)
    monkeypatch.setattr("pgdyno.compare.change.WARM_UP_SECONDS", 0.2)
    monkeypatch.setattr("pgdyno.conduct._session.WARM_UP_SECONDS_MIN", 0.2)
