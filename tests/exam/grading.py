"""Outcomes of cases, and the figures of each half.

A wrong answer costs two, an answer that leaves the limit open costs one. A fault that the harness
cannot prove, or that holds up less than a fifth of the clients, grades nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exam.model import Cause

OWNED_MIN = 0.2
NEIGHBOURS_CORES_MAX = 0.3
"""Cores of other programs above which a case is asked again."""
LEAVES_OPEN = ("unexplained",)
NOT_PRODUCIBLE = "not producible here"
GRADED = ("correct", "wrong", "unexplained")
COSTS = {"correct": 0, "unexplained": 1, "wrong": 2}
_Z95 = 1.959964


def outcome(cause: Cause, answer: Mapping[str, Any], *, busy_machine: bool) -> str:
    """Return the outcome of a case, from the examinee's answer."""
    if "missing" in answer:
        return NOT_PRODUCIBLE
    if "error" in answer:
        return "failed"
    neighbours = answer["other_programs_cores"]
    if neighbours > NEIGHBOURS_CORES_MAX and not busy_machine:
        return "disturbed"
    if not answer["proved"] or (answer["owned"] is not None and answer["owned"] < OWNED_MIN):
        return NOT_PRODUCIBLE
    said = answer["rank1"] or answer["said"]
    if said in cause.accepts:
        return "correct"
    return "unexplained" if said in LEAVES_OPEN else "wrong"


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's score method; 0 to 1 without cases."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = hits / n, _Z95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def figures(cases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of one half."""
    cases = list(cases)
    counts = Counter(case["outcome"] for case in cases)
    n = sum(counts[each] for each in GRADED)
    healthy = [case for case in cases if case["healthy"] and case["outcome"] in GRADED]
    return {
        **{each: counts[each] for each in GRADED},
        "n": n,
        "correct_ci95": _rounded(wilson(counts["correct"], n)),
        "wrong_ci95": _rounded(wilson(counts["wrong"], n)),
        "cost_mean": round(sum(COSTS[each] * counts[each] for each in GRADED) / n, 3)
        if n
        else None,
        "healthy_runs": len(healthy),
        "healthy_false_alarms": sum(case["rank1"] is not None for case in healthy),
        "not_graded": sum(counts.values()) - n,
    }


def summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of ``exam.json``."""
    halves = ("calibration", "held_out")
    return {
        "cases": list(cases),
        "throughput": throughput_by_cell(cases),
        **{half: figures(case for case in cases if case["half"] == half) for half in halves},
    }


def throughput_by_cell(cases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the throughput of the causes of each cell at intensity 1, and their ratio."""
    seen: dict[str, dict[str, list[float]]] = {}
    for case in cases:
        if case["intensity"] == 1 and case["outcome"] in GRADED and not case["healthy"]:
            of_cell = seen.setdefault(case["cell"], {})
            of_cell.setdefault(case["cause"], []).append(case["throughput_tps"])
    means = {
        cell: {cause: round(sum(tps) / len(tps), 1) for cause, tps in causes.items()}
        for cell, causes in seen.items()
    }
    return {
        cell: {"tps": tps, "ratio": round(max(tps.values()) / max(min(tps.values()), 1e-9), 2)}
        for cell, tps in means.items()
    }


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(end, 3) for end in interval]
