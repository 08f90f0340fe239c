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
    """Which tables a workload works on that pgdyno can make."""

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
    own: bool = False
    """Whether it is a file of the user's."""


@dataclass(frozen=True)
class Workload:
    """A mix of scripts and the tables that they run on."""

    name: str
    scripts: list[WeightedScript]
    tables: Tables

    @property
    def own(self) -> bool:
        """Whether a script of the user's is part of it."""
        return any(script.own for script in self.scripts)

    def variables(self, conninfo: ConnInfo, spec: WorkloadSpec) -> Mapping[str, str]:
        """What every client's variables hold at the start; the spec's own win.

        ``scale`` for all, ``maxid`` for ``mixed``: the highest id at this moment.
        """
        values = {"scale": str(spec.scale)}
        if self.tables is Tables.MIXED:
            from pgdyno.workload._mixed import highest_id

            values["maxid"] = str(highest_id(conninfo))
        return values | {name: str(value) for name, value in spec.variables.items()}
