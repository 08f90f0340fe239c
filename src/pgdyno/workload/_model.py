"""Model of a workload: weighted scripts, initial variables, tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.server import ConnInfo

if TYPE_CHECKING:
    from pgdyno.spec.workload import WorkloadSpec


class Tables(Enum):
    """The tables of a workload that pgdyno can make."""

    PGBENCH = "pgbench"
    MIXED = "mixed"
    BUSINESS = "business"
    ENTITIES = "entity-resolution"
    TPCC = "tpcc-like"
    INGEST = "ingest"
    NONE = "none"


class WeightedScript(Struct, frozen=True):
    """A script of a mix."""

    name: str
    """Its name in results; distinct within a workload."""
    text: str
    file: str
    """Its source, for error messages."""
    weight: int
    """Its share of the transactions is its weight divided by the sum of all weights."""
    own: bool = False
    """True for a file of the user."""


INITIAL_VARIABLES = ("scale", "began", "extras", "keying", "maxid")
"""Variables that a workload may have from the start; see ``Workload.variables``."""


class Workload(Struct, frozen=True):
    """A mix of scripts and the tables that they run on."""

    name: str
    scripts: list[WeightedScript]
    tables: Tables

    @property
    def own(self) -> bool:
        """True if it contains a script of the user."""
        return any(script.own for script in self.scripts)

    def variables(self, conninfo: ConnInfo | None, spec: WorkloadSpec) -> Mapping[str, str]:
        """Return the initial variables of every client; those of the spec have precedence.

        ``scale`` for all workloads, and ``began``, the Unix time, for those whose scripts have it;
        for ``mixed`` also ``maxid``, the current highest id; for
        ``entity-resolution`` also ``extras``, 0: tables that only some write are left empty; for
        ``tpcc-like`` also ``keying``, 0: nobody types or thinks.
        """
        values = {"scale": str(spec.scale)}
        if any(":began" in each.text for each in self.scripts):
            values["began"] = str(int(time.time()))
        if self.tables is Tables.ENTITIES:
            values["extras"] = "0"
        if self.tables is Tables.TPCC:
            values["keying"] = "0"
        if self.tables is Tables.MIXED:
            assert conninfo is not None, "its statements are for a database"
            from pgdyno.workload._builtin_tables import highest_id

            values["maxid"] = str(highest_id(conninfo))
        return values | {name: str(value) for name, value in spec.variables.items()}
