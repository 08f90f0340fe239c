"""Fixtures of the exam's tests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from exam.cells import cells
from exam.examinee import carry_out_case
from exam.model import INTENSITIES, Case

Answer = dict[str, Any]


@pytest.fixture
def answer_to(open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Carries a case out here: ``answer_to("lock-queue/hot-row", 15)``.

    It is the first at the greatest intensity, where a slow machine adds the least to the fault.
    """
    monkeypatch.setenv("PGPASSWORD", "")

    def carry_out(name: str, version: int) -> Answer:
        cell, _, cause = name.partition("/")
        found = next(
            each for c in cells() if c.name == cell for each in c.causes if each.name == cause
        )
        cases = (Case(cell, found, seed, version) for seed in count(1))
        strongest = max(INTENSITIES) if found.scaled else 1.0
        case = next(each for each in cases if each.intensity == strongest)
        return carry_out_case(case, open_dir / "run.db", busy_machine=True)

    return carry_out
