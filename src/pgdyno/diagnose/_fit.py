"""The prediction model, fitted to the facts of some slices."""

from __future__ import annotations

from pgdyno.diagnose._budget import LatencyBudget
from pgdyno.diagnose._facts import Facts, HostCpu
from pgdyno.diagnose._model import ClosedLoop

SPARE_SHARE = 0.1
"""Idle share of the host's cores below which processes compete for CPU."""


def fitted_loop(s: Facts, budget: LatencyBudget) -> ClosedLoop:
    """Return the model of ``s`` with the latency budget ``budget``.

    The CPU demand is what the server and the generator use; where processes cannot be seen, all
    that is busy is theirs; where the host cannot be seen either, sessions seen running stand in.
    """
    tps, cpu = s.throughput_tps, s.cpu_if_recorded
    seconds = {name: ms / 1000 for name, ms in budget.parts_ms.items()}
    sessions = max(1.0, s.in_service)
    busy = min(s.runnable, s.cores) if cpu is None else min(cpu.busy, s.own_cores or cpu.busy)
    return ClosedLoop(
        cores=s.cores if cpu is None else _cores_to_get(cpu, busy, s.runnable, sessions),
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


def _cores_to_get(cpu: HostCpu, used: float, runnable: float, sessions: float) -> float:
    """Cores that ``sessions`` can get from other programs on the machine, which compete as equals.

    As many rivals are taken to be there as explain what the load's runnable processes get now; at
    least one for each core that others use. All the cores, where there are no others.
    """
    rivals = cpu.busy - used
    if cpu.idle_share < SPARE_SHARE and used > 0:
        rivals = max(rivals, runnable * (cpu.cores / used - 1.0))
    return max(used, cpu.cores * sessions / (sessions + rivals), 1e-3)
