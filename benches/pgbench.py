"""pgbench of the newest PostgreSQL on the machine, with prepared statements.

It does not report its CPU time. The whole process is measured, and its start-up is subtracted: the
median of three runs with one transaction per client (``-t 1``), measured once per case, or a single
run with many clients. This also subtracts the first transactions, which are not counted for other
contenders either.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, field

from msgspec import Struct

from benches.processes import run_to_end
from benches.sample import BenchError, Case, Sample, plausible, startup_runs
from benches.server import BenchServer
from pgdyno.server import ConnInfo

_TIMEOUT_BESIDE_S = 120
_PROCESSED = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)
_CONNECTING = re.compile(r"^(?:initial|average) connection time = ([\d.]+) ms", re.MULTILINE)
_TPS = re.compile(r"^tps = ([\d.]+) \((?:without|including)", re.MULTILINE)


class PgbenchRun(Struct, frozen=True):
    """Figures of one run of pgbench."""

    sample: Sample
    connect_s: float


@dataclass
class Pgbench:
    """pgbench with ``threads`` threads."""

    server: BenchServer
    threads: int
    _startups: dict[Case, PgbenchRun] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name in the results."""
        return f"pgbench -j {self.threads}"

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice, of whole seconds in addition to connecting, which pgbench includes."""
        startup = self._startups.get(case) or self._startups.setdefault(case, self._start_up(case))
        duration_s = math.ceil(seconds + startup.connect_s + startup.sample.seconds - 0.05)
        run = self.run(case, "-T", str(duration_s), timeout_s=duration_s + _TIMEOUT_BESIDE_S)
        return plausible(run.sample.minus(startup.sample), self.name)

    def run(
        self,
        case: Case,
        *options: str,
        timeout_s: float = _TIMEOUT_BESIDE_S,
        conninfo: ConnInfo | None = None,
    ) -> PgbenchRun:
        """Run pgbench with further options."""
        ended = run_to_end(self.command(case, *options, conninfo=conninfo), timeout_s=timeout_s)
        transactions = int(_figure(_PROCESSED, ended.stdout))
        seconds = transactions / max(_figure(_TPS, ended.stdout), 1e-9)
        sample = Sample(transactions, seconds, ended.cpu_user_s, ended.cpu_system_s)
        return PgbenchRun(sample, _figure(_CONNECTING, ended.stdout) / 1000)

    def command(self, case: Case, *options: str, conninfo: ConnInfo | None = None) -> list[str]:
        """Return the command of a run."""
        conninfo = conninfo or self.server.conninfo(case.transport)
        return [
            *(str(self.server.cluster.installation.binary("pgbench")), "-n"),
            *("-M", "prepared", "-b", case.script, "-s", str(self.server.scale)),
            *("-c", str(case.clients), "-j", str(min(self.threads, case.clients))),
            *("-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user),
            *(*options, _database(conninfo)),
        ]

    def _start_up(self, case: Case) -> PgbenchRun:
        runs = [self.run(case, "-t", "1") for _ in range(startup_runs(case))]

        def median(attribute: str) -> float:
            return float(statistics.median(getattr(run.sample, attribute) for run in runs))

        parts = [median(name) for name in ("seconds", "cpu_user_s", "cpu_system_s")]
        connect_s = statistics.median(run.connect_s for run in runs)
        return PgbenchRun(Sample(case.clients, *parts), connect_s)


def _database(conninfo: ConnInfo) -> str:
    if conninfo.password is None:
        return conninfo.database
    return f"dbname={conninfo.database} password={conninfo.password}"


def _figure(pattern: re.Pattern[str], text: str) -> float:
    if (match := pattern.search(text)) is None:
        raise BenchError(f"the output of pgbench lacks {pattern.pattern}")
    return float(match[1])
