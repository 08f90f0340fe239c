"""Fit the predicting model to the facts of a run."""

from __future__ import annotations

from pgdyno.diagnose._facts import Facts, HostCpu
from pgdyno.diagnose._latency_budget import LatencyBudget
from pgdyno.diagnose._model import ClosedLoop

SPARE_SHARE = 0.1
"""Of the host's cores idle; below it, programs compete for cores."""


def fitted_loop(s: Facts, budget: LatencyBudget) -> ClosedLoop:
    """Return the model fitted to ``s`` and its latency budget.

    The CPU demand is the CPU time of the server and the generator; if processes are not visible,
    all busy time of the host; if the host is not visible either, the sessions seen running.
    """
    tps, cpu = s.throughput_tps, s.cpu_if_recorded
    seconds = {name: ms / 1000 for name, ms in budget.parts_ms.items()}
    sessions = max(1.0, s.in_service)
    busy = min(s.runnable, s.cores) if cpu is None else min(cpu.busy, s.own_cores or cpu.busy)
    return ClosedLoop(
        cores=s.cores if cpu is None else _cores_available(cpu, busy, s.runnable, sessions),
        sessions=sessions,
        throughput_tps=tps,
        cpu_s=busy / tps,
        cpu_system_share=0.0 if cpu is None else cpu.system_share,
        flush_s=seconds.get("flush", 0.0) + seconds.get("images", 0.0),
        row_s=seconds.get("row", 0.0),
        shared_s=seconds.get("shared", 0.0),
        data_s=seconds.get("data", 0.0),
        queue_now=s.runnable,
        saturated=cpu is not None and cpu.idle_share < SPARE_SHARE and s.runnable >= s.cores,
    ).fitted()


def _cores_available(cpu: HostCpu, used: float, runnable: float, sessions: float) -> float:
    """Return the cores that ``sessions`` can get beside equally scheduled other programs.

    The number of competing processes is chosen to explain the CPU time that the load's runnable
    processes get now, at least one for each core that others use. Without others, all cores.
    """
    competitors = cpu.busy - used
    if cpu.idle_share < SPARE_SHARE and used > 0:
        competitors = max(competitors, runnable * (cpu.cores / used - 1.0))
    return max(used, cpu.cores * sessions / (sessions + competitors), 1e-3)
