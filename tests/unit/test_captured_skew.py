"""The skew of updates, from the number of rows that they have changed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno._engine import MadeRows
from pgdyno.capture._skew import EXPONENT_MIN, exponent
from pgdyno.clone.keys import Keys


def _changed(rows: int, updates: int, exponent_: float, seed: int) -> int:
    parts = np.arange(1, rows + 1) ** -exponent_
    drawn = np.random.default_rng(seed).choice(rows, updates, p=parts / parts.sum())
    return len(np.unique(drawn))


@settings(max_examples=25)
@given(
    st.sampled_from((1_000, 20_000, 100_000)),
    st.sampled_from((0.6, 0.9, 1.01, 1.2, 1.5)),
    st.integers(0, 99),
)
def test_the_exponent_of_updates_is_found(rows: int, exponent_: float, seed: int) -> None:
    updates = rows // 2
    found = exponent(rows, updates, _changed(rows, updates, exponent_, seed))
    assert found == pytest.approx(exponent_, abs=0.12)


@pytest.mark.parametrize("updates", [300, 10_000, 1_000_000])
def test_even_updates_have_none(updates: int) -> None:
    assert exponent(10_000, updates, _changed(10_000, updates, 0.0, 1)) == 0.0


@given(st.floats(1, 1e9), st.floats(1, 1e9), st.floats(1, 1e9))
def test_any_counts_have_an_exponent(rows: float, updates: float, changed: float) -> None:
    found = exponent(rows, updates, changed)
    assert found == 0.0 or EXPONENT_MIN <= found <= 4.0


@pytest.mark.parametrize("exponent_", [0.5, 0.9, 1.0, 1.3])
def test_keys_are_drawn_with_the_exponent(exponent_: float) -> None:
    rows, drawn = 20_000, 10_000
    expression = Keys.skewed(rows, exponent_)
    made = MadeRows(f"copy t from stdin \\rows {drawn} {expression}", "t", [], 1)
    pieces = itertools.takewhile(bool, iter(lambda: made.piece(1 << 16), None))
    keys = b"".join(each for each in pieces if each).split()
    assert len(keys) == drawn
    assert {*map(int, keys)} <= {*range(1, rows + 1)}
    assert exponent(rows, drawn, len({*keys})) == pytest.approx(exponent_, abs=0.12)
