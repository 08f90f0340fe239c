"""Results of commands with made-up figures, for run files in tests of what reads them."""

from __future__ import annotations

from typing import Any

from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.compare import CompareResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.run import RunResult

NO_FAILURES = {"count": 0, "share": 0.0, "sqlstate": None, "message": None}
_HEAD = {
    "schema_version": 2, "run_file": "run.db", "database": "pgdyno", "trustworthy": True,
    "distrust": [], "incidents": [], "emulated": None,
}  # fmt: skip
_LATENCY = {
    "p50": 1.0, "p90": 1.0, "p95": 1.0, "p99": 2.0, "p99.9": None, "p99.99": None, "max": 2.0,
    "mean": 1.0, "count": 900,
}  # fmt: skip
_COLUMNS = (
    *("intended", "done", "failed", "skipped", "cancelled", "backlog", "sent", "retried"),
    *("expected_errors", "late", "carried_in"),
)
_PARTS = ("response", "wait", "client_lag", "pool_wait", "connect", "service")


def run_result(**more: Any) -> RunResult:
    """A result of ``pgdyno run``; ``more`` replaces members."""
    no_course = "too short"
    made: dict[str, Any] = {
        **_HEAD, "verdict": {"finding": None, "sentence": "no limit was found"},
        "failures": NO_FAILURES, "ledger": {"over": "run", **dict.fromkeys(_COLUMNS, 0)},
        "ledger_measured": {"over": "measured", **dict.fromkeys(_COLUMNS, 0)},
        "throughput_tps": 900.0, "steadiness": "steady from the start",
        "throughput_over_time": {
            "changes": [], "changes_absent": no_course, "drops": [], "drops_absent": no_course,
        },
        "throughput_by_clients": None, "latency_ms": dict.fromkeys(_PARTS, _LATENCY), "groups": [],
        "statements": [], "errors": [], "findings": [],
        "generator": {
            "reactor": None, "reactor_why": None, "cpus": None, "nice": None, "threads": 1,
            "cpu_us_per_transaction": 9.0, "send_late_ms_p99": 0.1, "loop_stall_ms_max": 0.7,
            "run_queue_delay_ms": 0.9,
        },
    }  # fmt: skip
    return RunResult.model_validate(made | more)


def compare_result(**more: Any) -> CompareResult:
    """A result of ``pgdyno compare``; ``more`` replaces members."""
    made: dict[str, Any] = {
        **_HEAD, "change": {}, "set_by": {}, "effect": None, "latency_p99": None, "compared": None,
        "noise_floor": None, "decision": "no verdict", "sentence": "no verdict: void",
        "pairs_needed": None, "throughput_tps": None, "failures": None,
        "catalogue": {
            "remedies": [], "durability_class": "unknown", "bound": "", "drills": [],
            "checkpoint_bound": False, "acts_on_existing_rows": True, "needs": [], "price": "",
            "not_in_catalogue": [],
        },
    }  # fmt: skip
    return CompareResult.model_validate(made | more)


def investigate_result(**more: Any) -> InvestigateResult:
    """A result of ``pgdyno investigate``; ``more`` replaces members."""
    made: dict[str, Any] = {
        **_HEAD, "steps": [], "not_measured": [], "allow": "D0", "kept": {},
        "baseline_tps": 900.0, "final_tps": 900.0, "baseline_latency_ms_p99": 9.0,
        "final_latency_ms_p99": 9.0, "noise_floor": {"of": "throughput", "ci95": [0.97, 1.03]},
        "next_limit": {"finding": None, "sentence": "no limit was found"}, "out_of_time": False,
        "elapsed_s": 100.0, "verdict": {"finding": None, "sentence": "no limit was found"},
    }  # fmt: skip
    return InvestigateResult.model_validate(made | more)


def chapter(number: int, **more: Any) -> RecordedChapter:
    """Chapter ``number`` of a story; ``more`` replaces members."""
    made: dict[str, Any] = {
        "number": number, "title": f"The {number}th", "remark": "Well.",
        "endings": {"": "better"}, "luck": [], "expected": None, "as_expected": None, "of": {},
    }  # fmt: skip
    return RecordedChapter.model_validate(made | more)
