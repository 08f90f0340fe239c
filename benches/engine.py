"""pgdyno as a contender: its engine in a separate process, whose CPU time is measured.

During a slice the process (``benches.engine_child``) does what ``pgdyno run`` does: its figures
include the coordinator, the collection of full histograms and the writing of the run file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from benches.floor import ROOT
from benches.sample import BenchError, Case, Sample, plausible
from benches.server import BenchServer
from pgdyno.conduct._config import engine_config
from pgdyno.conduct._engine_types import EngineConfig
from pgdyno.server import ConnInfo
from pgdyno.spec import spec_from_fields
from pgdyno.workload import load_workloads


class EngineChild:
    """A process that runs loads one after another; a context manager that ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benches.engine_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        """Process ID."""
        return self._process.pid

    def ask(self, task: str, config: EngineConfig, **options: Any) -> dict[str, Any]:
        """Have a load run. Raises BenchError with the message of the engine."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"task": task, "config": config, "options": options}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("the engine's process ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(answer["error"])
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.__exit__(kind, error, trace)  # closes its stdin, which ends it


def config_for(
    conninfo: ConnInfo,
    case: Case,
    scale: int,
    *,
    load: Mapping[str, Any] | None = None,
    group: Mapping[str, Any] | None = None,
) -> EngineConfig:
    """Return the engine's configuration for a spec with one group; ``load`` and ``group`` have the
    keys of a spec."""
    spec = spec_from_fields(
        {
            "name": "bench",
            "workload": {"script": case.script, "scale": scale},
            "clients": [{"name": "clients", "count": case.clients, **(group or {})}],
            "load": load or {},
        }
    )
    variables = {"clients": {"scale": str(scale)}}
    return engine_config(spec, conninfo, load_workloads(spec), variables, scheduled=False)


@dataclass
class Pgdyno:
    """The engine, with ``load`` as in a spec. CPU: the whole process, during the slice."""

    server: BenchServer
    child: EngineChild
    name: str
    load: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice."""
        conninfo = self.server.conninfo(case.transport)
        config = config_for(conninfo, case, self.server.scale, load=self.load)
        return plausible(Sample(**self.child.ask("slice", config, seconds=seconds)), self.name)
