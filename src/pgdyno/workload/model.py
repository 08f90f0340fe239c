"""What the clients of a run do: weighted scripts, the variables they start with, their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pgdyno.server import ConnInfo

if TYPE_CHECKING:
    from pgdyno.spec.model import WorkloadSpec


class Tables(Enum):
    """Which tables a workload needs pgdyno to make."""

    PGBENCH = "pgbench"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True)
class WeightedScript:
    """One script of a mix."""

    name: str
    """What results call it; distinct within a workload."""
    text: str
    file: str
    """Where it comes from, for error messages."""
    weight: int
    """Its share of the transactions is this over the sum of all weights."""


@dataclass(frozen=True)
class Workload:
    """A mix of scripts and the tables that they run on."""

    name: str
    scripts: list[WeightedScript]
    tables: Tables

    def variables(self, conninfo: ConnInfo, spec: WorkloadSpec) -> Mapping[str, str]:
        """What every client's variables hold at the start; the spec's own win.

        ``scale`` for all, ``maxid`` for ``mixed``: the highest id at this moment.
        """
        values = {"scale": str(spec.scale)}
        if self.tables is Tables.MIXED:
            from pgdyno.workload.mixed import highest_id

            values["maxid"] = str(highest_id(conninfo))
        return values | {name: str(value) for name, value in spec.variables.items()}
