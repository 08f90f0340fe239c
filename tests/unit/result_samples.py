"""Results of commands with made-up figures, for run files in tests of what reads them."""

from __future__ import annotations

from typing import Any

from pgdyno.results.age import AgeResult
from pgdyno.results.branch import BranchResult
from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.compare import CompareResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.knee import KneeResult
from pgdyno.results.pool import PoolResult
from pgdyno.results.run import RunResult
from pgdyno.results.storm import StormPoint, StormResult

NO_FAILURES = {"count": 0, "share": 0.0, "by_sqlstate": {}, "sqlstate": None, "message": None}
NONE_FAILED = {"before": NO_FAILURES, "after": NO_FAILURES}
COSTLIEST = {
    "statement": "end", "share": 0.5, "measure": "clients", "rows_read": None,
    "rows_returned": None, "plan_part": None, "plan_part_share": None,
    "sentence": "50 % of the statements' time, as the clients measure it: end; it reads no rows,"
    " its time is that of the commit",
}  # fmt: skip
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


BUDGET: dict[str, Any] = {
    "response_ms": 4.0, "unexplained_share": 0.2,
    "missing": ["sessions at work were seen 12 times only: shares of waits are rough",
                "parsing and planning are part of the CPU time"],
    "parts": [
        {"part": "flush", "words": "the WAL flush", "ms": 2.8, "share": 0.7, "status": "explained",
         "findings": ["commit-flush"], "wait_events": [{"event": "IO:WalSync", "share": 0.7}]},
        {"part": "other", "words": "other waits", "ms": 0.8, "share": 0.2,
         "status": "unexplained", "findings": [],
         "wait_events": [{"event": "IPC:Odd", "share": 0.2}]},
        {"part": "running", "words": "CPU", "ms": 0.4, "share": 0.1, "status": "own work",
         "findings": [], "wait_events": []},
    ],
    "statements": [
        {"group": "web", "script": "tpcb-like", "statement": statement, "ms": 2.0, "share": 0.5,
         "executions_per_transaction": 1.0,
         "parts": [{"part": "flush", "words": "the WAL flush", "ms": 1.4,
                    "wait_events": ["IO:WalSync"]}]}
        for statement in ("begin", "end")
    ],
}  # fmt: skip
"""Parts of a response of 4 ms, one of them unexplained."""


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
        "latency_over_time": {
            "changes": [], "changes_absent": no_course, "groups_not_examined": [],
        },
        "throughput_by_clients": None, "vacuum": None, "entity_resolution": None,
        "costliest": COSTLIEST,
            "latency_ms": dict.fromkeys(_PARTS, _LATENCY),
        "latency_budget": BUDGET, "groups": [],
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
        "noise_floor": None, "matters": None,
        "decision": "no verdict", "sentence": "no verdict: void", "pairs_needed": None,
        "throughput_tps": None, "failures": None, "postponed": [],
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
        "total": None, "total_absent": None,
        "baseline_tps": 900.0, "final_tps": 900.0, "baseline_latency_ms_p99": 9.0,
        "final_latency_ms_p99": 9.0, "noise_floor": {
            "of": "throughput", "ci95": [0.97, 1.03], "pairs": 6, "six_pairs_show": 0.045,
        },
        "matters": 0.03,
        "next_limit": {"finding": None, "sentence": "no limit was found"}, "out_of_time": False,
        "latency_budget": BUDGET,
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


def knee_result(*, rate: bool = False, **more: Any) -> KneeResult:
    """A result of ``pgdyno knee``, by clients or by rate; ``more`` replaces members."""
    made: dict[str, Any] = {
        **_HEAD, "varied": "rate" if rate else "clients", "group": "web",
        "slo": ["p99 < 20ms"] if rate else [],
        "sentence": "up to 400 meet it" if rate else "the knee is at 4 clients",
        "knee": {"rate_tps": 400.0, "tps": 399.0, "ci95": None, "p99_ms": 9.0} if rate else
        {"clients": 4, "tps": 3900.0, "ci95": (3800.0, 4000.0), "p99_ms": 2.0,
         "clients_ci95": (3, 8)},
        "highest": None if rate else {"clients_min": 4, "clients_max": 8, "tps": 4000.0},
        "tried_max": 800.0 if rate else 8.0, "lower_bound": False,
        "curve": [_point(number, rate=rate) for number in (1, 2, 4, 8)],
        "law": None if rate else LAW,
        "limit": {"finding": "server-cpu", "sentence": "the CPU is busy"},
        "sustained": {"seconds": 21.0, "tps": 3890.0, "p99_ms": 2.1, "steady": True,
                      "sentence": "3,890 tps over 21 s, p99 2.10 ms, steady from the start"},
        "out_of_time": False, "elapsed_s": 120.0,
    }  # fmt: skip
    return KneeResult.model_validate(made | more)


LAW: dict[str, Any] = {
    "follows": True, "sentence": "the curve follows the Universal Scalability Law within 2 %",
    "error": 0.02, "single_tps": 1000.0, "single_tps_ci95": (900.0, 1100.0), "contention": 0.1,
    "contention_ci95": (0.05, 0.2), "coherence": 0.0, "coherence_ci95": (0.0, 0.01),
    "clients_at_knee": 10.0, "clients_at_peak": None,
}  # fmt: skip


def _point(number: int, *, rate: bool) -> dict[str, Any]:
    tps = min(1000.0 * number, 4000.0)
    of_rate = {"rate_tps": 100.0 * number, "met": 3 if number < 8 else 0} if rate else {}
    return {
        "clients": 64 if rate else number, "tps": 100.0 * number if rate else tps,
        "ci95": (0.9 * tps, 1.1 * tps), "p50_ms": 1.0, "p99_ms": 2.0 * number,
        "p99_ms_ci95": (1.8 * number, 2.2 * number), "slices": 3, "seconds": 9.0,
        "steady": number != 2, "why": "", **of_rate,
    }  # fmt: skip


def pool_result(**more: Any) -> PoolResult:
    """A result of ``pgdyno pool``, with the best size 4 of 1 to 8; ``more`` replaces members."""
    made: dict[str, Any] = {
        **_HEAD, "pooler": "none", "group": "web", "clients": 64, "rate_tps": None,
        "slo": ["p99 < 20ms"], "best": {
            "size": 4, "size_ci95": (3, 8), "tps": 3900.0, "ci95": (3800.0, 4000.0),
            "p99_ms": 18.0, "service_ms": 1.0,
        },
        "sentence": "the best pool has 4 connections", "lower_bound": False,
        "highest": {"size_min": 4, "size_max": 4, "tps": 3900.0}, "tried_max": 8,
        "curve": [
            {"size": size, "tps": min(1000.0 * size, 3900.0), "ci95": None, "p50_ms": 10.0,
             "p99_ms": 18.0 if size == 4 else 64.0 / size, "p99_ms_ci95": None,
             "service_ms": 1.0, "slices": 3, "seconds": 9.0, "met": size == 4, "steady": True,
             "why": ""}
            for size in (1, 2, 4, 8)
        ],
        "limit": {"finding": "server-cpu", "sentence": "the CPU is busy"},
        "limit_beyond": {"finding": "hot-row", "sentence": "throughput falls by 12 %"},
        "beyond": {
            "size": 8, "throughput_ratio": 0.88, "ci95": (0.84, 0.92),
            "tps_per_connection": -117.0, "service_ms_per_connection": 0.3, "parts": [],
            "sentence": "throughput falls by 12 %",
        },
        "settings": [{"of": "HikariCP", "settings": {"maximumPoolSize": 2}, "note": "fixed"}],
        "arithmetic": {"instances": 2, "size_each": 2, "total": 4,
                       "sentence": "4 / 2 instances = 2 each, 4 in all"},
        "sustained": None, "out_of_time": True, "elapsed_s": 120.0,
    }  # fmt: skip
    return PoolResult.model_validate(made | more)


def storm_point(**more: Any) -> StormPoint:
    """A storm that is survived; ``more`` replaces members."""
    made: dict[str, Any] = {
        "clients": 100, "survived": True, "steady_s": 1.5, "connected": 100,
        "connect_ms_p50": 300.0, "connect_ms_p99": None, "response_ms_p99": None, "errors": [],
        "why": "",
    }  # fmt: skip
    return StormPoint.model_validate(made | more)


def storm_result(**more: Any) -> StormResult:
    """A result of ``pgdyno storm``; ``more`` replaces members."""
    cause = {"sqlstate": "53300", "count": 9, "message": "sorry, too many clients already"}
    points = [
        storm_point(),
        storm_point(clients=200, survived=False, steady_s=None, connected=120, errors=[cause],
                    why="120 of 200 clients were connected after 10 s"),
    ]  # fmt: skip
    variant = {
        "title": "", "clients": 200, "storms": 3, "survived": 0, "steady_s": None,
        "steady_s_min": None, "steady_s_max": None, "errors": 27, "connect_ms_p99": None,
        "sentence": "",
    }  # fmt: skip
    queue = {
        "title": "a queue for 10 connections (--pool-max 10)", "survived": 3, "steady_s": 0.2,
        "steady_s_min": 0.1, "steady_s_max": 0.3, "errors": 0,
        "sentence": "a queue for 10 connections: 3 of 3 storms survived instead of 0",
    }  # fmt: skip
    made = _HEAD | {
        "shape": "herd", "group": "web", "within_s": 10.0, "clients_max": 1000,
        "largest": points[0], "failed": 200,
        "sentence": "100 clients that connect at once are survived, steady after 1.5 s",
        "points": points, "variants": [variant, variant | queue], "untried": [],
        "out_of_time": False, "elapsed_s": 60.0,
    }  # fmt: skip
    return StormResult.model_validate(made | more)


def age_period(**more: Any) -> dict[str, Any]:
    """A period of ``pgdyno age``; ``more`` replaces members."""
    made: dict[str, Any] = {
        "seconds": 10.0, "throughput_tps": 900.0, "latency_ms_p99": 20.0, "reads_done": 800,
        "writes_done": 8200, "refused": 0, "failed": 0, "vacuums": 0, "failsafe": 0,
        "failsafe_tables": [], "warnings": 0,
    }  # fmt: skip
    return made | more


def age_result(**more: Any) -> AgeResult:
    """A result of ``pgdyno age`` past the stop; ``more`` replaces members."""
    vacuums = {"vacuums": 326, "failsafe": 326, "failsafe_tables": ["public.test_table"]}
    made = _HEAD | {
        "of": "xid", "requested": 2_146_000_000, "age_before": 11, "age": 2_146_008_372,
        "seconds": 0.32, "sentence": "the oldest transaction ID was 11 old",
        "before": age_period(),
        "under_age": age_period(writes_done=0, refused=5000, warnings=4, **vacuums),
        "recovery": {
            "below": 200_000_000, "age": 760, "seconds": 2.4, "writes_seconds": 1.9,
            "period": age_period(refused=300, **vacuums),
        },
        "tables": [
            {"table": "public.test_table", "before": 7, "inserted": 3, "after": 10,
             "complete": True},
            {"table": "public.other", "before": 1, "inserted": None, "after": 2, "complete": None},
        ],
        "checks": [{"name": "pg_amcheck", "passed": True, "detail": "pg_amcheck found nothing"}],
        "elapsed_s": 30.0,
    }  # fmt: skip
    return AgeResult.model_validate(made | more)


def branch_figures(name: str, **more: Any) -> dict[str, Any]:
    """A branch of ``pgdyno branch``; ``more`` replaces members."""
    start = {
        "round": 1, "slice": 3, "rows": {"public.test_table": 10}, "pages_sha256": "a" * 64,
        "restore_seconds": 0.1, "ready_seconds": 0.4, "throughput_tps": 900.0,
        "latency_ms_p99": 20.0, "throughput_tps_before": 1900.0,
    }  # fmt: skip
    made: dict[str, Any] = {
        "name": name, "remark": "", "title": "", "change": {}, "match": None,
        "events": [{"at_s": 2, "action": "vacuum freeze t", "ended": 1, "seconds": 1.25}],
        "throughput_tps": 900.0, "throughput_tps_before": 1900.0, "latency_ms_p99": 20.0,
        "own_effect": {"throughput_ratio": 0.47, "ci95": [0.4, 0.55]}, "effect": None,
        "latency_p99": None, "compared": None, "decision": None, "sentence": "", "groups": [],
        "starts": [start],
    }  # fmt: skip
    return made | more


def branch_result(**more: Any) -> BranchResult:
    """A result of ``pgdyno branch`` with two branches; ``more`` replaces members."""
    plain = branch_figures(
        "plain",
        events=[{"at_s": 2, "action": "vacuum t", "ended": 0, "seconds": None}],
        effect={"throughput_ratio": 1.5, "ci95": [1.2, 1.8], "pairs": 6},
        latency_p99={"ratio": 0.8, "ci95": [0.7, 0.9]}, compared="throughput", decision="better",
        sentence="better: 1.50x [1.20, 1.80] in 6 pairs",
    )  # fmt: skip
    made = _HEAD | {
        "rounds": 6,
        "state": {
            "before_s": 15, "bytes": 300_000_000, "rows": {"public.test_table": 10}, "files": 8,
            "pages_sha256": "a" * 64, "method": "clone", "file_system": "xfs", "save_seconds": 0.2,
        },
        "same_state": True, "branches": [branch_figures("freeze"), plain],
        "sentence": "against freeze, plain: better", "elapsed_s": 30.0,
    }  # fmt: skip
    return BranchResult.model_validate(made | more)
