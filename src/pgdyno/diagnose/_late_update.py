"""Time for which a contended row would be held if it were updated last in its transaction."""

from __future__ import annotations

from pgdyno.diagnose.facts.scripts import only_script
from pgdyno.diagnose.facts.sessions import QUICK_PERCENTILE
from pgdyno.diagnose.facts.slices import Facts
from pgdyno.workload.update_last import LateUpdate, late_update

_KEY = "workload.update_last"


def held_parts(s: Facts, table: str) -> tuple[float, float] | None:
    """Return the part of the time that a row of ``table`` is held which would remain, 0 to 1, at
    most and at least.

    By the clients' own times of the statements that follow the update: all of them up to COMMIT
    now, COMMIT alone then. Who gets the row has just been woken, behind others who wait for a core
    or for their flush; what COMMIT takes in their absence is between its mean and its quickest
    executions. None if the script does not permit it or is not the only one.
    """
    moved = _moved(s, table)
    statements = sorted(s.statements, key=lambda each: each.position)
    if moved is None or len(statements) <= moved.end:
        return None
    if any(not each.service.count for each in statements):
        return None
    end = statements[moved.end].service
    quick_ns = [each.service.percentile(QUICK_PERCENTILE) for each in statements]
    after_ns = sum(each.service.mean for each in statements[moved.place + 1 : moved.end + 1])
    own_ns = min(quick_ns[moved.place], end.mean)
    most = (own_ns + end.mean) / (own_ns + after_ns)
    return most, (min(quick_ns) + quick_ns[moved.end]) / (own_ns + after_ns)


def _moved(s: Facts, table: str) -> LateUpdate | None:
    if len(s.groups) != 1 or _KEY in s.change.spec:
        return None
    text = only_script(s)
    return late_update(text, table) if text else None
