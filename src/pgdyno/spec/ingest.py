"""The ways by which the workload ``ingest`` brings rows in, and the size of its commits."""

from __future__ import annotations

from typing import Literal

Way = Literal["single", "multirow", "pipeline", "copy"]
TRANSACTION_ROWS = 100
"""Rows of each transaction of the script, in one commit or several."""
_DEFAULTS: dict[Way, int] = {
    "single": 1,
    "multirow": TRANSACTION_ROWS,
    "pipeline": TRANSACTION_ROWS,
    "copy": TRANSACTION_ROWS,
}


def batch_of(way: Way, batch: int | None) -> int:
    """Return the rows of a commit: ``batch``, or the default of the way."""
    return _DEFAULTS[way] if batch is None else batch


def check_batch(batch: int | None) -> int | None:
    """Return ``batch``. Raises ValueError if the rows of a transaction are not whole batches."""
    if batch is not None and TRANSACTION_ROWS % batch:
        divisors = [n for n in range(1, TRANSACTION_ROWS + 1) if TRANSACTION_ROWS % n == 0]
        listed = ", ".join(map(str, divisors))
        raise ValueError(f"{batch} does not divide {TRANSACTION_ROWS} rows; these do: {listed}")
    return batch
