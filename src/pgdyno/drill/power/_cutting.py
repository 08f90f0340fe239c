"""Power cuts of one recorded load, each verified by a server of its own on what the cut left.

The server of the load is down meanwhile. What a cut left is mounted below the folder of the server
that verifies it, and goes with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.drill._verify import Crashed, verify
from pgdyno.drill.model import Outcome, Proof, Verified
from pgdyno.drill.power._images import CutPlaces, FileSystemBroken, Roll
from pgdyno.drill.power._loaded import RecordedLoad
from pgdyno.drill.power._plan import Planned
from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.controldata import ControlData

if TYPE_CHECKING:
    from pgdyno._engine import Cut as DiskCut
    from pgdyno.drill._drill import Drill

HARMED: tuple[Outcome, ...] = ("refused", "corrupt")
_COPIES = 4


@dataclass(frozen=True)
class Looked:
    """What became of the server after one cut."""

    control: ControlData
    """What the control file said before the start: nothing if the cut could not be mounted."""
    verified: Verified


class Cutter:
    """Makes cuts of one load, the later ones after the earlier ones."""

    def __init__(self, drill: Drill, load: RecordedLoad) -> None:
        """``drill`` has recorded ``load``; its server is down."""
        self._drill = drill
        self.installation = drill.cluster.installation
        self.load = load
        self.folder = drill.folder / "power"
        shared_directory(self.folder)
        _require_space(load.disks.bases, self.folder)
        self.roll = Roll(load.disks, self.folder)

    def disk_cut(self, planned: Planned) -> DiskCut:
        """Roll forward to the time of a cut, and decide what became of each sector."""
        self.roll.advance(planned.at_ns)
        return self.load.disks.logs.cut(
            planned.at_ns, planned.seed, planned.sector_bytes, planned.keep
        )

    def look(self, cut: DiskCut, at_ns: int, *, deep: bool = True) -> Looked:
        """Start a server on what ``cut`` leaves, verify it, and take it away again."""
        origin = self._drill.cluster
        settings = {**origin.settings, "synchronous_standby_names": ""}
        try:
            cluster = Cluster.create(origin.installation, settings, disks=self.roll.places(cut))
        except FileSystemBroken as broken:
            said = Verified("refused", None, None, seen_by="mount", server_said=broken.message)
            return Looked(ControlData(), said)
        try:
            control = cluster.control_data()
            cluster.forget_settings(["synchronous_standby_names"])
            crashed = Crashed(
                cluster=cluster,
                acks=self.load.acks,
                cut_ns=at_ns,
                witnesses=self._drill.witnesses,
                only_before_cut=True,
            )
            return Looked(control, verify(crashed, deep=deep))
        finally:
            cluster.destroy()

    def inspect(self, cut: DiskCut) -> CutPlaces:
        """What ``cut`` leaves, mounted for a look; to be closed before the next look."""
        return self.roll.places(cut)(self.folder)


def _require_space(bases: Sequence[Path], folder: Path) -> None:
    """Room for the rolling images, those of a cut and as much again for what is written to them."""
    used = sum(base.stat().st_blocks * 512 for base in bases)
    free = shutil.disk_usage(folder).free
    if free < _COPIES * used:
        raise SetupError(
            f"power cuts of disks that hold {used >> 20:,} MB take {_COPIES * used >> 20:,} MB in"
            f" {folder}, where {free >> 20:,} MB are free",
            code="disk-space",
            hint="set PGDYNO_HOME to a directory with more space, or choose a smaller --scale",
        )


def _writes(number: int) -> str:
    return "1 write was" if number == 1 else f"{number:,} writes were"


def proof_of(planned: Planned, cut: DiskCut, control: ControlData) -> Proof:
    """That the power went, and what was at stake when it did."""
    facts = cut.facts()
    lost = facts["sectors"] - facts["kept"] - facts["garbage"]
    stake = (
        f"{_writes(facts['pending_writes'])} pending, {lost:,} of {facts['sectors']:,} sectors lost"
        if facts["sectors"]
        else "no write was pending, so that the disk lost nothing"
    )
    found = "the control file cannot be read"
    if control.state:
        found = f'the control file says "{control.state}"'
    details: dict[str, Any] = {
        "why": planned.why,
        "sector_bytes": facts["sector_bytes"],
        "pending_writes": facts["pending_writes"],
        "sectors": facts["sectors"],
        "kept": facts["kept"],
        "garbage": facts["garbage"],
        "lost": lost,
        "control_file": control.state,
    }
    return Proof(not control.shut_down, f"{stake}; {found}", details)


def wal_dir(places: CutPlaces) -> Path:
    """Where the WAL lies on mounted disks."""
    return places.wal / "pg_wal" if places.wal else places.data / "pgdata/pg_wal"
