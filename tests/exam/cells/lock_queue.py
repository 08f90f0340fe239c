"""Sessions that queue for locks: a row, the rows of a batch, an advisory lock, a table."""

from __future__ import annotations

from exam.model import Cause, Cell, Proof
from exam.proofs import lock_queue
from exam.scene import Scene

_HOLD = ("workload.variables.hold_s",)


def _batch(scene: Scene) -> Proof:
    (rows,) = scene.query("select count(distinct id) from touched")[0]
    queue = lock_queue("transactionid", "tuple")(scene)
    text = f"{queue.counter}; the batch's transactions update {rows} rows each"
    return Proof(text, queue.holds and rows > 100, queue.owned)


CELL = Cell(
    "lock-queue",
    (
        Cause("hot-row", ("hot-row",), lock_queue("transactionid", "tuple"), scaled=_HOLD),
        Cause("batch-update", ("batch-update",), _batch, scaled=_HOLD),
        Cause("advisory-lock", ("advisory-lock",), lock_queue("advisory"), scaled=_HOLD),
        Cause("lock-table", ("relation-lock",), lock_queue("relation"), scaled=_HOLD),
    ),
)
