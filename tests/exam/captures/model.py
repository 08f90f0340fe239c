"""The loads that are captured, and the tolerances of their clones."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

Fields = dict[str, Any]
ORDERS = Path(__file__).parent / "orders" / "orders.toml"
CLIENTS = 4
SHARE_MIN = 0.95
"""Least share of the calls whose rows are alike, and of the time whose plans are."""
GROWTH_S = 10.0
"""Load of a source whose tables are empty at first, between two times that they are analyzed."""
RATIO, POINTS = 0.10, 0.05
"""Tolerances: of a ratio, and of the difference of two shares."""
Unit = Literal["/s", "ms", "bytes", "share"]


class Times(Struct, frozen=True):
    """How long a load is watched."""

    capture_s: float = 10.0
    rounds: int = 4
    """Slices of each side."""
    slice_s: float = 4.0

    def in_words(self, grown_s: float) -> str:
        """Return them in words, with the load before the capture."""
        before = f", which {grown_s:g} s of load precede" if grown_s else ""
        return (
            f"{self.rounds} slices of {self.slice_s:g} s for each side, a capture of"
            f" {self.capture_s:g} s{before}"
        )


class Load(Struct, frozen=True):
    """A load of the source."""

    name: str
    fields: Fields
    """Of its spec; of an application none, as that makes the load itself."""
    clients: int = CLIENTS
    index: str = ""
    """Table and column of an index that it lacks, for the changes that are transferred."""
    growths: int = 0
    """Times that it is loaded before everything else: its tables are empty at first."""
    times: Times = Times()

    @property
    def grown_s(self) -> float:
        """Time that it is loaded before everything else."""
        return self.growths * GROWTH_S

    @property
    def is_application(self) -> bool:
        """True if an application makes the load, not pgdyno."""
        return not self.fields


_OF_JOBS = Times(60.0, 4, 15.0)
"""Of an application that has jobs each 30 s."""


def loads() -> list[Load]:
    """Return the loads; ``orders`` only if its spec is there."""
    found = [
        _builtin("tpcb-like", 10, "pgbench_accounts (abalance)"),
        _builtin("mixed", 10),
        _builtin("business", 1, "business_stock (in_stock)"),
        _builtin("entity-resolution", 1, growths=3),
        _builtin("tpcc-like", 1),
    ]
    if ORDERS.exists():
        found.append(Load("orders", _own(ORDERS)))
    return [*found, Load("synapse", {}, growths=6, times=_OF_JOBS)]


def _builtin(script: str, scale: int, index: str = "", growths: int = 0) -> Load:
    fields = {"workload": {"script": script, "scale": scale}}
    return Load(script, fields, index=index, growths=growths)


def _own(path: Path) -> Fields:
    """Return the fields of a spec, its files by their whole names."""
    fields = tomllib.loads(path.read_text())
    fields["workload"]["setup"] = str(path.parent / fields["workload"]["setup"])
    for part in (part for group in fields["clients"] for part in group["script"]):
        part["file"] = str(path.parent / part["file"])
    return {name: fields[name] for name in ("workload", "clients")}
