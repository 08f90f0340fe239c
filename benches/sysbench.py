"""sysbench with prepared statements and, as it requires, a thread per client.

As with pgbench, the whole process is measured, and the median of three runs with one event per
client is subtracted.
"""

from __future__ import annotations

import math
import re
import shutil
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from benches.processes import run_to_end
from benches.sample import BenchError, Case, Sample, plausible, startup_runs
from benches.server import BenchServer

NAME = "sysbench"
_LUA = Path(__file__).with_suffix(".lua")
_TIMEOUT_BESIDE_S = 120
_EVENTS = re.compile(r"total number of events: +(\d+)")
_SECONDS = re.compile(r"total time: +([\d.]+)s")


@dataclass
class Sysbench:
    """sysbench as a contender."""

    server: BenchServer
    program: str
    name: str = NAME
    _startups: dict[Case, Sample] = field(default_factory=dict)

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice, of whole seconds."""
        startup = self._startups.get(case) or self._startups.setdefault(case, self._start_up(case))
        duration_s = math.ceil(seconds + startup.seconds - 0.05)
        sample = self._run(case, "--events=0", f"--time={duration_s}", seconds=duration_s)
        return plausible(sample.minus(startup), self.name)

    def _start_up(self, case: Case) -> Sample:
        events = f"--events={case.clients}"
        runs = [self._run(case, events, "--time=0") for _ in range(startup_runs(case))]
        return Sample(
            case.clients,
            statistics.median(run.seconds for run in runs),
            statistics.median(run.cpu_user_s for run in runs),
            statistics.median(run.cpu_system_s for run in runs),
        )

    def _run(self, case: Case, *options: str, seconds: float = 0) -> Sample:
        conninfo = self.server.conninfo(case.transport)
        argv = [
            *(self.program, str(_LUA), "run", "--db-driver=pgsql", "--db-ps-mode=auto"),
            *(f"--pgsql-host={conninfo.host}", f"--pgsql-port={conninfo.port}"),
            *(f"--pgsql-user={conninfo.user}", f"--pgsql-db={conninfo.database}"),
            *(f"--threads={case.clients}", "--rand-type=uniform", "--percentile=0"),
            *(f"--workload={case.script}", f"--scale={self.server.scale}", *options),
        ]
        ended = run_to_end(argv, timeout_s=seconds + _TIMEOUT_BESIDE_S)
        events, total = _EVENTS.search(ended.stdout), _SECONDS.search(ended.stdout)
        if events is None or total is None:
            raise BenchError(f"the output of sysbench lacks its totals: {ended.stdout[-300:]}")
        return Sample(int(events[1]), float(total[1]), ended.cpu_user_s, ended.cpu_system_s)


def find_sysbench() -> str | None:
    """Return the path of sysbench; None if it is not installed."""
    return shutil.which(NAME)
